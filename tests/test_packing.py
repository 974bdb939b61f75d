"""Packed layers, on a CPU: PyTorch's attention with a mask of the rows stands in for FlashAttention."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from rankencoder.errors import TrainingWarning
from rankencoder.training.backbones.backbone import load_backbone
from rankencoder.training.loop import collator, packing
from rankencoder.training.loop.collator import ViewCollator
from rankencoder.training.loop.packing import (
    PackedLayers,
    can_pack,
    is_kernel_right,
    pack_rows,
    packed_size,
)
from rankencoder.training.methods import ESimCSE, PromptBERT, SimCSE

# at a lower temperature there is nothing to learn
METHODS = [method(temperature=1.0) for method in (SimCSE, PromptBERT, ESimCSE)]


@pytest.fixture
def attention(monkeypatch):
    """Attention within packed rows by a mask; a list of the numbers of tokens it saw."""
    seen = []

    def masked(module, query, key, value, attention_mask, *, cu_seq_lens_q, scaling, **_):
        assert attention_mask is None
        seen.append(query.shape[2])
        row = torch.searchsorted(cu_seq_lens_q, torch.arange(query.shape[2]), right=True)
        out = scaled_dot_product_attention(query, key, value, row[:, None] == row, scale=scaling)
        return out.transpose(1, 2), None

    monkeypatch.setitem(AttentionInterface._global_mapping, packing._NAME, masked)
    return seen


def loss_and_gradients(made, features):
    made.loss.zero_grad()
    torch.manual_seed(3)
    loss = made.loss([dict(features)])
    loss.backward()
    gradients = {name: p.grad.clone() for name, p in made.loss.named_parameters() if p.grad is not None}
    return {"loss": loss.detach(), **gradients}


@pytest.mark.parametrize("spare", [0, 1, 50])
@pytest.mark.parametrize("kind", ["bert", "roberta"])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_packed_layers_change_neither_loss_nor_gradients(build_loss, attention, method, kind, spare):
    made = build_loss(kind, method)
    transformer = made.model[0]
    expected = loss_and_gradients(made, made.features)
    assert not attention
    mask = made.features["attention_mask"].numpy().astype(bool)
    assert not mask.all()
    packed = {key: torch.from_numpy(value) for key, value in pack_rows(mask, mask.sum() + spare).items()}
    with PackedLayers(made.loss, transformer):
        found = loss_and_gradients(made, {**made.features, **packed})
        assert set(attention) == {mask.sum() + spare}
        again = loss_and_gradients(made, made.features)  # as dev pairs are encoded
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(again, expected)
    assert transformer.model.config._attn_implementation != packing._NAME


def test_an_error_in_the_loss_leaves_the_usual_attention(build_loss, attention):
    made = build_loss("bert", SimCSE())
    config = made.model[0].model.config
    usual = config._attn_implementation
    mask = made.features["attention_mask"].numpy().astype(bool)
    packed = {key: torch.from_numpy(value) for key, value in pack_rows(mask, mask.size).items()}
    packed["places"] += 10**6
    with PackedLayers(made.loss, made.model[0]), pytest.raises(IndexError):
        made.loss([{**made.features, **packed}])
    assert config._attn_implementation == usual
    torch.testing.assert_close(made.loss([dict(made.features)]), made.loss([dict(made.features)]))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(1, 200))
def test_every_token_has_one_place_in_its_row(lengths, size):
    longest = max(lengths)
    mask = np.arange(longest) < np.array(lengths)[:, None]
    found = pack_rows(mask, size)
    places, starts = found["places"], found["starts"]
    assert len(places) == (size if mask.sum() <= size else mask.size)
    assert (places[places < mask.size] == np.flatnonzero(mask)).all()
    rows = [places[a:b] // longest for a, b in pairwise(starts)]
    assert [row.tolist() for row in rows[: len(lengths)]] == [[i] * n for i, n in enumerate(lengths)]
    assert starts[-1] == len(places)
    assert np.diff(starts).min() >= 0
    assert np.diff(starts).max() <= longest  # the longest row that the attention is told
    other = pack_rows(np.ones_like(mask), size)
    assert len(places) != len(other["places"]) or len(starts) == len(other["starts"])


@pytest.mark.parametrize("batch_size", [16, 64, 512])
def test_the_size_fits_nearly_all_batches(batch_size):
    random = np.random.default_rng(0)
    lengths = np.minimum(random.poisson(24, (4096, 1)), 32).repeat(2, axis=1)
    size = packed_size(lengths, batch_size, 32)
    batches = random.choice(lengths.sum(axis=1), (2000, batch_size)).sum(axis=1)
    assert (batches <= size).mean() > 0.95
    assert size < batches.mean() + 3 * batches.std() + 64
    assert packed_size(np.full((10, 2), 32), batch_size, 32) == batch_size * 64


def test_the_collator_measures_and_packs(masked_models, monkeypatch):
    pytest.importorskip("triton", reason="needs triton, which is for Linux alone")
    from datasets import Dataset

    backbone = load_backbone(str(masked_models["bert"]))
    collate = ViewCollator(SimCSE(), backbone, 32)
    rows = Dataset.from_dict(
        {"row": range(200), "text": ["a cat"] * 150 + ["a cat sleeps on the warm mat"] * 50}
    )
    collate.pack(rows, 64, torch.device("cpu"), torch.float16)
    batch = collate([rows[i] for i in range(100, 164)])
    assert len(batch["views_places"]) == collate.packed < batch["views_input_ids"].numel()
    collate.longest = 4
    assert "views_places" not in collate([rows[i] for i in range(100, 164)])  # a sample may miss long rows
    collate.packed = 0
    monkeypatch.setattr(collator, "LONGEST", 4)
    collate.pack(rows, 64, torch.device("cpu"), torch.float16)
    assert collate.packed == 0
    assert not can_pack(backbone, torch.device("cpu"), "bf16")


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])  # Triton's interpreter has no bfloat16
@pytest.mark.parametrize("longest", [8, 32, 128])
def test_the_kernel_is_tried_before_it_is_used(longest, dtype, monkeypatch):
    pytest.importorskip("triton", reason="needs triton, which is for Linux alone")
    from rankencoder.training.loop import row_attention

    assert is_kernel_right(torch.device("cpu"), dtype, 16, longest)
    right = row_attention.row_attention
    monkeypatch.setattr(row_attention, "row_attention", lambda *given: right(*given) * 1.1)
    with pytest.warns(TrainingWarning, match="^batches are padded, which is slower: attention is off by 0.1"):
        assert not is_kernel_right(torch.device("cpu"), dtype, 16, longest)

    def refuse(*_):
        raise RuntimeError("Failed to find C compiler\nand more")

    monkeypatch.setattr(row_attention, "row_attention", refuse)
    with pytest.warns(TrainingWarning, match="padded, which is slower: Failed to find C compiler$"):
        assert not is_kernel_right(torch.device("cpu"), dtype, 16, longest)
