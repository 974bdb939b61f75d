"""The rank loss against the specification's numbers and scipy."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_oracles import (
    BATCH,
    CORPUS,
    COSINES,
    RANKS,
    SENTENCES,
    TARGETS,
    cosines_by_hand,
    info_nce_by_hand,
    numbers,
)
from scipy.stats import spearmanr
from torch.nn.functional import normalize

from rankencoder.ranks import training_rank_vectors
from rankencoder.training.losses.formulas import (
    cosine_matrix,
    rank_loss,
    rank_targets,
    select_pairs,
    total_loss,
)
from rankencoder.training.methods import SimCSE, SimCSEWithMLM
from rankencoder.training.teaching.rankencoder_loss import RankEncoderLoss


def test_ranks_and_targets_of_the_specification():
    ranks = training_rank_vectors(BATCH @ CORPUS.T)
    torch.testing.assert_close(ranks, (torch.tensor(RANKS) - 2) / 10**0.5)
    torch.testing.assert_close(rank_targets(BATCH, CORPUS), TARGETS)


@pytest.mark.parametrize(
    ("lower", "upper", "pairs", "expected"),
    [(0.5, 0.8, 4, 0.04125), (0.5, 1.0, 7, 0.0262714), (-1, 1, 9, 0.0273778)],
)
def test_rank_loss_of_the_specification(lower, upper, pairs, expected):
    for targets in (TARGETS, rank_targets(BATCH, CORPUS)):
        chosen = select_pairs(targets, lower, upper, "auto")
        assert chosen.sum() == pairs
        assert rank_loss(COSINES, targets, chosen).item() == pytest.approx(expected, abs=5e-8)


@pytest.mark.parametrize("n", [2_000, 20_000])
def test_targets_are_spearman_correlations(n):
    reference = normalize(numbers(n, n, 24), dim=1)
    teacher = numbers(7, 12, 24)
    teacher[1] = teacher[0] + 0.01 * teacher[2]
    similarities = teacher.double().numpy() @ reference.double().numpy().T
    targets = rank_targets(teacher, reference)
    np.testing.assert_allclose(targets, spearmanr(similarities, axis=1).statistic, atol=1e-5)
    assert targets[0, 1] > 0.99
    assert not targets.requires_grad


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([2, 3, 17, 400, 10_000]),
    powers=st.lists(st.integers(-20, 20), min_size=6, max_size=6),
)
def test_targets_are_symmetric_and_know_nothing_of_lengths(seed, n, powers):
    reference = normalize(numbers(seed, n, 8), dim=1)
    teacher = numbers([seed, 1], 6, 8)
    targets = rank_targets(teacher, reference)
    torch.testing.assert_close(targets, targets.T, rtol=0, atol=1e-5)
    torch.testing.assert_close(targets.diagonal(), torch.ones(6), rtol=0, atol=1e-5)
    assert targets.abs().max() <= 1
    scaled = teacher * 2.0 ** torch.tensor(powers)[:, None]
    assert torch.equal(rank_targets(scaled, reference), targets)


def test_targets_of_vectors_in_half_precision():
    reference = normalize(numbers(0, 3_000, 24), dim=1)
    teacher = numbers(1, 8, 24).half()
    similarities = teacher.double().numpy() @ reference.double().numpy().T
    np.testing.assert_allclose(
        rank_targets(teacher, reference), spearmanr(similarities, axis=1).statistic, atol=1e-5
    )


def test_pairs_with_oneself():
    targets = torch.tensor([[1, 0.55, 0.2], [0.55, 1, 0.9], [0.2, 0.9, 1]])
    before = targets.clone()
    without = [[False, True, False], [True, False, False], [False, False, False]]
    assert select_pairs(targets, 0.5, 0.8, "auto").tolist() == without
    assert select_pairs(targets, 0.5, 0.8, "never").tolist() == without
    with_all = [[True, True, False], [True, True, False], [False, False, True]]
    assert select_pairs(targets, 0.5, 0.8, "always").tolist() == with_all
    everything = torch.ones(3, 3, dtype=torch.bool)
    assert torch.equal(select_pairs(targets, -1, 1, "auto"), everything)
    assert torch.equal(select_pairs(targets, -1, 1, "never"), everything ^ torch.eye(3, dtype=torch.bool))
    assert torch.equal(targets, before)
    # the half-precision accident of the authors' code, section 9.5
    half = targets.half()
    assert torch.equal(select_pairs(targets, 0.5, 0.9999, "always"), (half >= 0.5) & (half <= 0.9999))
    assert not select_pairs(targets, 0.5, 0.9999, "auto").diagonal().any()


@pytest.mark.parametrize("n", [50, 2_000, 20_000])
def test_an_upper_bound_of_1_takes_in_the_whole_diagonal(n):
    targets = rank_targets(numbers(0, 64, 16), normalize(numbers(1, n, 16), dim=1))
    assert select_pairs(targets, 0.5, 1.0, "auto").diagonal().all()


def test_bounds_are_inclusive():
    targets = torch.tensor([[0.5, 0.8], [0.4999, 0.8001]])
    assert select_pairs(targets, 0.5, 0.8, "auto").tolist() == [[True, True], [False, False]]


def test_rank_loss_is_the_mean_over_the_chosen_pairs():
    cosines, targets = torch.tanh(numbers(0, 9, 9)).requires_grad_(), torch.tanh(numbers(1, 9, 9))
    chosen = select_pairs(targets, -0.2, 0.6, "auto")
    assert 9 < chosen.sum() < 72
    loss = rank_loss(cosines, targets, chosen)
    difference = (cosines.detach() - targets).numpy()
    assert loss.item() == pytest.approx(np.mean(difference[chosen.numpy()] ** 2), rel=1e-6)
    loss.backward()
    expected = np.where(chosen, 2 * difference / chosen.sum().item(), 0)
    np.testing.assert_allclose(cosines.grad, expected, atol=1e-7)


def test_without_a_pair_in_range_there_is_nothing_to_learn():
    vectors = numbers(0, 4, 8).requires_grad_()
    targets = torch.full((4, 4), 0.1)
    loss = rank_loss(cosine_matrix(vectors, vectors), targets, select_pairs(targets, 0.5, 0.8, "auto"))
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(vectors.grad, torch.zeros(4, 8))


@pytest.mark.parametrize(
    ("contrastive", "rank", "combine", "value", "gradients"),
    [
        (0.2, 2.0, "max", 0.2, (1, 0)),
        (0.2, 5.0, "max", 0.25, (0, 0.05)),
        (0.2, 2.0, "sum", 0.3, (1, 0.05)),
        (0.2, 5.0, "sum", 0.45, (1, 0.05)),
    ],
)
def test_the_larger_loss_takes_all_or_both_add_up(contrastive, rank, combine, value, gradients):
    parts = [torch.tensor(part, requires_grad=True) for part in (contrastive, rank)]
    total = total_loss(*parts, 0.05, combine)
    total.backward()
    assert total.item() == pytest.approx(value, rel=1e-6)
    assert [part.grad.item() for part in parts] == pytest.approx(gradients)


REFERENCE = normalize(numbers(5, 500, 12), dim=1)
TEACHER = normalize(numbers(6, 4, 12), dim=1)
TEACHER[1] = normalize(TEACHER[0] + 0.7 * TEACHER[1], dim=0)


@pytest.mark.parametrize("student", ["encoder", "head"])
@pytest.mark.parametrize("combine", ["max", "sum"])
@pytest.mark.parametrize("diagonal", ["auto", "always"])
@pytest.mark.parametrize("weight", [0.5, 50])
def test_the_loss_of_stage_2_by_hand(build_loss, student, combine, diagonal, weight):
    made = build_loss("bert", SimCSE(temperature=0.5), teacher0=TEACHER.half())
    chosen = {"combine": combine, "diagonal": diagonal, "student": student, "weight": weight}
    loss = RankEncoderLoss(made.loss, [REFERENCE], lower=0.3, upper=0.9, **chosen)
    value = loss([made.features]).item()
    vectors = torch.from_numpy(made.model.encode(SENTENCES))
    outputs = cosines_by_hand(*[made.loss.head(vectors).detach()] * 2)
    contrastive = info_nce_by_hand(outputs, 0.5)
    targets = spearmanr(TEACHER.half().double().numpy() @ REFERENCE.double().numpy().T, axis=1).statistic
    chosen = (targets >= 0.3) & (targets <= 0.9)
    assert 0 < chosen.sum() < 12
    np.fill_diagonal(chosen, diagonal == "always")
    cosines = outputs if student == "head" else cosines_by_hand(vectors, vectors)
    rank = np.mean((cosines - targets)[chosen] ** 2)
    assert (weight * rank > contrastive) == (weight == 50)
    expected = max(weight * rank, contrastive) if combine == "max" else weight * rank + contrastive
    assert value == pytest.approx(expected, rel=1e-4)
    figures = {name: value.item() for name, value in loss.logged.items()}
    assert figures["contrastive"] == pytest.approx(contrastive, rel=1e-4)
    assert figures["rank"] == pytest.approx(rank, rel=1e-4)
    assert figures["weighted_rank"] == pytest.approx(weight * rank, rel=1e-4)
    assert figures["diagonal_pairs"] == (4 if diagonal == "always" else 0)
    assert figures["pairs"] == chosen.sum() - figures["diagonal_pairs"]
    assert figures["target"] == pytest.approx(targets.mean(), abs=1e-5)


@pytest.mark.parametrize(("weight", "moved"), [(1e3, False), (1e-3, True)])
def test_the_smaller_loss_moves_nothing(build_loss, weight, moved):
    """The head is in the contrastive loss alone, the encoder in both."""
    made = build_loss("bert", SimCSE(temperature=0.5), teacher0=TEACHER)
    loss = RankEncoderLoss(made.loss, [REFERENCE], weight=weight, lower=0.3, upper=0.9)
    loss([made.features]).backward()
    assert made.loss.head[0].weight.grad.any().item() is moved
    assert made.model[0].model.embeddings.word_embeddings.weight.grad.any()
    assert {name.split(".")[0] for name, _ in loss.named_parameters()} == {"model", "base"}


def test_masked_language_modeling_comes_on_top_of_the_larger_loss(build_loss):
    made = build_loss("bert", SimCSEWithMLM(), teacher0=TEACHER)
    loss = RankEncoderLoss(made.loss, [REFERENCE], weight=1e3, lower=0.3, upper=0.9)
    value = loss([made.features]).item()
    figures = {name: part.item() for name, part in loss.logged.items()}
    assert figures["mlm"] > 0.01
    assert figures["weighted_rank"] > figures["contrastive"]
    assert value == pytest.approx(figures["weighted_rank"] + figures["mlm"], rel=1e-6)
