import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rankencoder.blend import blend, blend_vectors, check_rank_weight, reweight_vectors
from rankencoder.errors import InputError

weights = st.floats(0, 1)


def unit(rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(
        torch.randn(rows, columns, generator=generator, dtype=torch.float64), dim=1
    )


@given(weights, st.integers(0, 1000))
def test_cosine_of_the_blended_vectors_is_equation_7(weight, seed):
    ranks, vectors = unit(4, 9, seed), unit(4, 5, seed + 1)
    blended = blend_vectors(ranks, vectors, weight)
    assert torch.allclose(blended.norm(dim=1), torch.ones(4, dtype=torch.float64))
    cosine = torch.nn.functional.cosine_similarity(blended[:, None], blended[None], dim=2)
    assert torch.allclose(cosine, blend(ranks @ ranks.T, vectors @ vectors.T, weight))


@given(st.floats(0.01, 0.99), weights, st.integers(0, 1000))
def test_reweighting_is_blending_with_the_other_weight(old, new, seed):
    ranks, vectors = unit(3, 7, seed), unit(3, 4, seed + 1)
    again = reweight_vectors(blend_vectors(ranks, vectors, old), 7, old, new)
    assert torch.allclose(again, blend_vectors(ranks, vectors, new))


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan")])
def test_weights_outside_0_to_1(weight):
    with pytest.raises(InputError, match="between 0 .* and 1"):
        check_rank_weight(weight)


@pytest.mark.parametrize(("old", "new", "gone"), [(0.0, 0.5, "rank"), (1.0, 0.5, "cosine")])
def test_a_part_that_is_gone_cannot_be_weighted(old, new, gone):
    with pytest.raises(InputError, match=f"no {gone} part"):
        reweight_vectors(torch.ones(1, 4), 2, old, new)
    assert torch.equal(reweight_vectors(torch.ones(1, 4), 2, old, old).isnan(), torch.zeros(1, 4).bool())
