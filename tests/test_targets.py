"""What E2 learns: of one teacher or several, by ranks or otherwise, one by one or as lists."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax
from scipy.stats import spearmanr
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import cosine_similarity

from rankencoder.training.losses.formulas import listnet_loss
from rankencoder.training.methods import SimCSE
from rankencoder.training.teaching.rankencoder_loss import RankEncoderLoss
from rankencoder.training.teaching.targets import TeacherSimilarity


def numbers(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape)).float()


def units(seed, n, dimension):
    scales = torch.linspace(2, 0.2, dimension)  # a covariance that is not the identity
    return torch.nn.functional.normalize(numbers(seed, n, dimension) * scales + 0.3, dim=1)


REFERENCE, BATCH = units(0, 400, 12), units(1, 9, 12)
OTHER_REFERENCE, OTHER_BATCH = units(2, 400, 7), units(3, 9, 7)


def spearman(batch, reference):
    return spearmanr((batch.double() @ reference.double().T).numpy(), axis=1).statistic


def test_several_teachers_of_any_dimension_are_averaged():
    targets = TeacherSimilarity([REFERENCE, OTHER_REFERENCE])([BATCH.half(), OTHER_BATCH.half()])
    pairs = ((BATCH, REFERENCE), (OTHER_BATCH, OTHER_REFERENCE))
    expected = np.mean([spearman(batch.half(), reference) for batch, reference in pairs], axis=0)
    np.testing.assert_allclose(targets, expected, atol=1e-5)


def test_the_same_teacher_twice_is_that_teacher():
    once = TeacherSimilarity([REFERENCE])([BATCH])
    torch.testing.assert_close(TeacherSimilarity([REFERENCE] * 2)([BATCH] * 2), once)
    np.testing.assert_allclose(once, spearman(BATCH, REFERENCE), atol=1e-5)


def test_cosine_is_the_teachers_own():
    targets = TeacherSimilarity([REFERENCE], "cosine")([3 * BATCH])
    np.testing.assert_allclose(targets, cosine_similarity(BATCH), atol=1e-6)


def test_power_one_half_is_pearsons_correlation_of_the_similarities():
    targets = TeacherSimilarity([REFERENCE], 0.5)([BATCH])
    np.testing.assert_allclose(targets, np.corrcoef(BATCH.double() @ REFERENCE.double().T), atol=1e-5)


def test_power_minus_one_half_is_whitening():
    whitened = PCA(whiten=True).fit(REFERENCE.double()).transform(BATCH.double())
    targets = TeacherSimilarity([REFERENCE], -0.5)([BATCH])
    np.testing.assert_allclose(targets, cosine_similarity(whitened), atol=1e-4)


@pytest.mark.parametrize("target", ["ranks", "cosine", -0.25])
def test_targets_are_whole_numbers_under_autocast_and_have_no_gradient(target):
    similarity = TeacherSimilarity([REFERENCE], target)
    expected = similarity([BATCH])
    batch = BATCH.clone().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        targets = similarity([batch])
    assert targets.dtype == torch.float32
    assert not targets.requires_grad
    assert torch.equal(targets, expected)
    assert (targets.abs() <= 1).all()
    assert not list(similarity.parameters())


# --- lists ---


def others(matrix):
    n = len(matrix)
    return np.array([[matrix[i, j] for j in range(n) if j != i] for i in range(n)])


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 6), temperature=st.sampled_from([0.05, 0.5, 2.0]))
def test_lists_are_those_of_scipy(seed, n, temperature):
    cosines, targets = numbers(seed, n, n).double().tanh(), numbers(seed + 1, n, n).double().tanh()
    student, teacher = others(cosines.numpy()) / temperature, others(targets.numpy())
    listnet = -(softmax(teacher / temperature, axis=1) * log_softmax(student, axis=1)).sum(axis=1).mean()
    assert listnet_loss(cosines, targets, temperature).item() == pytest.approx(listnet, rel=1e-9)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6))
def test_the_students_own_list_has_the_lowest_loss(seed):
    cosines, targets = numbers(seed, 6, 6).tanh(), numbers(seed + 1, 6, 6).tanh()
    assert listnet_loss(cosines, cosines, 0.1) <= listnet_loss(targets, cosines, 0.1)


def test_one_sentence_has_no_list():
    one = torch.ones(1, 1)
    assert listnet_loss(one, one, 0.05) == 0


def test_the_diagonal_is_in_no_list():
    cosines, targets = numbers(5, 6, 6).tanh(), numbers(6, 6, 6).tanh()
    expected = listnet_loss(cosines, targets, 0.1)
    changed = listnet_loss(cosines + 9 * torch.eye(6), targets - 9 * torch.eye(6), 0.1)
    torch.testing.assert_close(changed, expected)


def test_lists_come_beside_the_papers_loss(build_loss):
    made = build_loss("bert", SimCSE(), teacher0=BATCH[:4], teacher1=OTHER_BATCH[:4])
    references = [REFERENCE, OTHER_REFERENCE]
    plain = RankEncoderLoss(made.loss, references, lower=-1, upper=1)
    expected = plain([made.features])
    loss = RankEncoderLoss(made.loss, references, lower=-1, upper=1, listwise="listnet")
    value = loss([made.features])
    vectors = made.model(dict(made.features))["sentence_embedding"].detach()
    targets = plain.similarity([BATCH[:4], OTHER_BATCH[:4]])
    cosines = torch.from_numpy(cosine_similarity(vectors[:4], vectors[4:]))
    added = listnet_loss(cosines, targets, 0.05)
    assert value.item() == pytest.approx((expected + added).item(), rel=1e-4)
    assert loss.logged["listnet"].item() == pytest.approx(added.item(), rel=1e-4)
    assert "RankCSE" in loss.citation.replace("{", "").replace("}", "")
    assert "RankCSE" not in plain.citation.replace("{", "").replace("}", "")
    assert loss.get_config_dict()["teachers"] == 2
