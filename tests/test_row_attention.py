"""Attention within packed rows: the Triton kernel, interpreted on the CPU, against PyTorch's attention."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

pytest.importorskip("triton", reason="needs triton, which is for Linux alone")
from rankencoder.training.loop.row_attention import row_attention

HEADS, WIDTH = 2, 16
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def make(lengths, dtype=torch.float32):
    torch.manual_seed(sum(lengths))
    shape = (sum(lengths), HEADS, WIDTH)
    given = [torch.randn(shape, dtype=dtype, device=DEVICE, requires_grad=True) for _ in range(3)]
    starts = torch.tensor([0, *lengths], dtype=torch.int32, device=DEVICE).cumsum(0, dtype=torch.int32)
    return given, starts


def attend(given, starts, dropout=0.0, seed=7):
    longest = int(starts.diff().max())
    return row_attention(*given, starts, torch.tensor([seed], device=DEVICE), longest, WIDTH**-0.5, dropout)


def expected(given, starts):
    rows = zip(*(part.double().tensor_split(starts[1:-1].tolist()) for part in given), strict=True)
    found = [scaled_dot_product_attention(*(part.transpose(0, 1) for part in row)) for row in rows]
    return torch.cat([row.transpose(0, 1) for row in found])


# a GPU computes products of float32 in TF32
@pytest.mark.parametrize("dtype", [torch.float16] if DEVICE == "cuda" else [torch.float32, torch.float16])
@pytest.mark.parametrize("lengths", [[1], [5, 0, 17, 32, 1], [33, 64], [128, 3], [0, 0, 2]], ids=str)
def test_attention_and_gradients_are_those_of_pytorch(lengths, dtype):
    given, starts = make(lengths, dtype)
    found, oracle = attend(given, starts), expected(given, starts)
    gradient = torch.randn_like(found)
    gradients = torch.autograd.grad(found, given, gradient)
    oracles = torch.autograd.grad(oracle, given, gradient.double())
    for part, true in zip((found, *gradients), (oracle, *oracles), strict=True):
        error = (part.double() - true.double()).norm() / true.double().norm().clamp(min=1e-3)
        assert error < (2e-3 if dtype == torch.float16 else 1e-6)


def test_dropout_keeps_its_share_and_scales_it():
    (query, key, value), starts = make([64] * 4)
    ones = torch.ones_like(value)
    kept = attend((query, key, ones), starts, dropout=0.25)  # sums of the kept probabilities
    assert kept.std() > 0.01
    assert kept.mean().item() == pytest.approx(1, abs=0.02)
    torch.testing.assert_close(kept, attend((query, key, ones), starts, dropout=0.25))
    assert (kept != attend((query, key, ones), starts, dropout=0.25, seed=8)).any()
    per_row = kept.view(4, 64, HEADS, WIDTH)[..., 0]
    assert (per_row[0] != per_row[1]).any()  # rows and heads have dropout of their own
    assert (per_row[..., 0] != per_row[..., 1]).any()


@pytest.mark.skipif(DEVICE == "cuda", reason="TF32 is too coarse for differences of losses")
def test_gradients_see_the_same_dropout():
    given, starts = make([9, 24])
    gradient = torch.randn_like(given[0])
    gradients = torch.autograd.grad(attend(given, starts, dropout=0.3), given, gradient)
    for at in range(3):
        change = torch.randn_like(given[at])
        sides = []
        for step in (1e-2, -1e-2):
            moved = [part.detach() + (step * change if i == at else 0) for i, part in enumerate(given)]
            sides.append((attend(moved, starts, dropout=0.3) * gradient).sum())
        slope = (sides[0] - sides[1]) / 2e-2
        assert slope.item() == pytest.approx((gradients[at] * change).sum().item(), rel=1e-2, abs=1e-2)


def test_pytorch_accepts_the_operator():
    given, starts = make([3, 0, 8])
    seed = torch.tensor([1], device=DEVICE)
    torch.library.opcheck(row_attention, (*given, starts, seed, 8, 0.25, 0.0))
