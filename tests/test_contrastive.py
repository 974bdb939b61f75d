"""The contrastive loss against the specification's numbers, sentence-transformers and scikit-learn."""

import textwrap
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from loss_oracles import COSINES, SENTENCES, cosines_by_hand, numbers
from scipy.special import logsumexp
from torch.nn.functional import normalize

from rankencoder.training.backbones.backbone import load_backbone
from rankencoder.training.losses.contrastive import ContrastiveLoss, Head
from rankencoder.training.losses.formulas import (
    cosine_matrix,
    info_nce,
    rank_targets,
)
from rankencoder.training.methods import SimCSE
from rankencoder.training.teaching.rankencoder_loss import RankEncoderLoss


def test_info_nce_of_the_specification():
    exact = torch.tensor([[0.95, 0.40, 0.10], [0.35, 0.90, 0.55], [0.05, 0.50, 0.92]], dtype=torch.float64)
    assert info_nce(exact, 0.05).item() == pytest.approx(3.899218e-4, abs=1e-10)
    assert info_nce(COSINES, 0.05).item() == pytest.approx(3.899218e-4, rel=1e-3)
    assert info_nce(torch.full((7, 7), 0.3), 0.05).item() == pytest.approx(np.log(7), abs=1e-6)


def test_info_nce_is_multiple_negatives_ranking_loss_of_scale_20(build_loss):
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    made = build_loss("bert", SimCSE())
    made.loss.head = torch.nn.Identity()
    other = [text.replace("The", "A") + " and a dog" for text in SENTENCES]
    one, two = (
        made.backbone.tokenizer(texts, padding="max_length", max_length=24) for texts in (SENTENCES, other)
    )
    pairs = [{k: torch.tensor(part[k]) for k in ("input_ids", "attention_mask")} for part in (one, two)]
    views = {key: torch.cat([part[key] for part in pairs]) for key in pairs[0]}
    results = []
    for loss, features in (
        (made.loss, [{**views, "rows": torch.arange(4)}]),
        (MultipleNegativesRankingLoss(made.model, scale=20), pairs),
    ):
        made.model.zero_grad()
        value = loss(features, None)
        value.backward()
        results.append((value.item(), made.model[0].model.embeddings.word_embeddings.weight.grad.clone()))
    assert results[0][0] > 0.01
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-5)
    torch.testing.assert_close(results[0][1], results[1][1], rtol=1e-3, atol=1e-6)


def test_simcse_without_dropout(build_loss):
    """Section 1.8: both views are the same then, and the loss is mean_i log Σ_j exp((cos_ij − 1)/τ)."""
    made = build_loss("bert", SimCSE(temperature=0.5))
    vectors = made.model.encode(SENTENCES)
    weight, bias = (p.detach().double().numpy() for p in made.loss.head[0].parameters())
    cosines = cosines_by_hand(*[np.tanh(vectors @ weight.T + bias)] * 2)
    expected = logsumexp((cosines - 1) / 0.5, axis=1).mean()
    assert expected > 0.1
    assert made.loss([made.features]).item() == pytest.approx(expected, abs=1e-5)
    logged = made.loss.logged
    assert logged["positive_cosine"].item() == pytest.approx(1, abs=1e-6)
    assert logged["negative_cosine"].item() == pytest.approx((cosines.sum() - 4) / 12, abs=1e-5)
    assert logged["contrastive"].item() == pytest.approx(expected, abs=1e-5)


def test_the_head_is_initialized_as_transformers_does():
    torch.manual_seed(0)
    head = Head(256)
    linear, activation = head
    assert linear.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert linear.weight.mean().item() == pytest.approx(0, abs=4e-4)
    assert not linear.bias.any()
    x = numbers(0, 3, 256)
    torch.testing.assert_close(head(x), torch.tanh(x @ linear.weight.T + linear.bias))
    assert isinstance(activation, torch.nn.Tanh)


def test_cosines_are_those_of_scikit_learn():
    from sklearn.metrics.pairwise import cosine_similarity

    a, b = numbers(0, 5, 16), numbers(1, 7, 16)
    np.testing.assert_allclose(cosine_matrix(a, b), cosine_similarity(a, b), atol=1e-6)
    assert cosine_matrix(torch.zeros(2, 16), b).abs().max() == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_autocast_costs_no_digits(dtype):
    a, b = numbers(0, 5, 64).to(dtype), numbers(1, 5, 64).to(dtype)
    reference = normalize(numbers(2, 300, 64), dim=1)
    expected, targets = cosine_matrix(a, b), rank_targets(a, reference)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (a @ b.T).dtype == torch.bfloat16
        assert cosine_matrix(a, b).dtype == rank_targets(a, reference).dtype == torch.float32
        assert torch.equal(cosine_matrix(a, b), expected)
        assert torch.equal(rank_targets(a, reference), targets)
    np.testing.assert_allclose(expected, cosines_by_hand(a.float(), b.float()), atol=1e-6)


@pytest.mark.parametrize("loss", [ContrastiveLoss, RankEncoderLoss])
def test_the_example_of_the_docstring_runs(masked_models, loss):
    example = loss.__init__.__doc__.split("::\n")[1].replace("bert-base-uncased", str(masked_models["bert"]))
    names = {"load_backbone": load_backbone, "SimCSE": SimCSE, "RankEncoderLoss": RankEncoderLoss}
    names["reference"] = SimpleNamespace(vectors=torch.eye(5, 32))
    exec(textwrap.dedent(example), names)
    assert isinstance(names["loss"], loss)
