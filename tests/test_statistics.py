"""Correlations, bootstraps and descriptions of a space, against scipy, scikit-learn and known values."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap, skew, spearmanr, ttest_1samp, ttest_ind
from sklearn.neighbors import NearestNeighbors
from vector_spaces import alignment, hubness, spread, uniformity

from rankencoder.errors import InputError
from rankencoder.evaluation.pair_metrics import GRADED
from rankencoder.evaluation.statistics import (
    BootstrapScores,
    Interval,
    mean_gain,
    mean_interval,
    resample,
    resampled_spearman,
    spearman,
)


def unit_vectors(number, dimension, seed=0):
    rows = torch.randn(number, dimension, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(rows + 0.3, dim=1)


def scored(number, noise, seed):
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 11, number) / 2
    return gold, gold + rng.normal(scale=noise, size=number)


def gain(sets, seed=0):
    """The paired gain of the last similarity of each set over the one before."""
    both = [
        [GRADED.bootstrap(gold, values, seed=seed + i) for values in pair]
        for i, (gold, *pair) in enumerate(sets)
    ]
    return mean_gain(both)


def one_interval(gold, similarities):
    found = GRADED.bootstrap(gold, similarities)
    return Interval.of(found.runs.mean(), found.samples)


@given(st.integers(5, 60), st.integers(0, 10_000))
def test_resampled_correlations_are_those_of_scipy(number, seed):
    rng = np.random.default_rng(seed)
    gold, similarities = rng.integers(0, 4, (2, number)).astype(float)  # many ties
    counts = resample(number, rounds=3, seed=seed)
    assert (counts.sum(axis=1) == number).all()
    for row, found in zip(counts, resampled_spearman(gold, similarities, counts)[0], strict=True):
        drawn = np.repeat(np.arange(number), row)
        if np.ptp(gold[drawn]) == 0 or np.ptp(similarities[drawn]) == 0:
            assert np.isnan(found)
        else:
            assert found == pytest.approx(spearmanr(gold[drawn], similarities[drawn]).statistic, abs=1e-12)


def test_interval_agrees_with_scipys_bootstrap():
    gold, similarities = scored(400, 2.0, seed=1)
    ours = one_interval(gold, similarities)

    def statistic(a, b):
        return spearmanr(a, b).statistic

    theirs = bootstrap(
        (gold, similarities), statistic, paired=True, vectorized=False, method="percentile", n_resamples=1000
    ).confidence_interval
    assert ours.value == pytest.approx(spearmanr(gold, similarities).statistic)
    assert ours.low == pytest.approx(theirs.low, abs=0.012)
    assert ours.high == pytest.approx(theirs.high, abs=0.012)


def test_gains_are_paired():
    """Two similarities that differ little: the gain is far more certain than either correlation."""
    gold, good = scored(1000, 2.0, seed=2)
    worse = good + np.random.default_rng(3).normal(scale=0.7, size=1000)
    found = gain([(gold, worse, good)])
    assert found.value == pytest.approx(spearmanr(gold, good).statistic - spearmanr(gold, worse).statistic)
    assert found.verdict == "better"
    assert gain([(gold, good, worse)]).verdict == "worse"
    alone = one_interval(gold, good)
    assert found.high - found.low < 0.6 * (alone.high - alone.low)


def test_no_gain_is_mostly_called_chance():
    """The interval of a difference of nothing holds 0 about 95 times in 100."""
    missed = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        gold = rng.normal(size=300)
        a, b = gold + rng.normal(size=(2, 300))
        missed += gain([(gold, a, b)], seed=seed).verdict != "within chance"
    assert missed <= 8  # 3 are expected; more than 8 has a chance of 1 in 400


def test_gains_are_averaged_over_sets_and_runs():
    sets = [scored(200, noise, seed) for seed, noise in enumerate((1.0, 3.0))]
    rng = np.random.default_rng(9)
    runs = [np.array([s + rng.normal(size=200) for _ in range(3)]) for _, s in sets]
    found = gain([(gold, base, run) for (gold, base), run in zip(sets, runs, strict=True)])
    expected = np.mean(
        [
            spearmanr(gold, row).statistic - spearmanr(gold, base).statistic
            for (gold, base), run in zip(sets, runs, strict=True)
            for row in run
        ]
    )
    assert found.value == pytest.approx(expected)


@pytest.mark.parametrize(("runs", "same"), [(2, True), (3, True), (3, False), (5, True)])
def test_noise_of_training_is_not_taken_for_a_gain(runs, same):
    """Runs that differ by chance alone, more than the pairs: 1 of 20 may be called better or worse."""
    rng = np.random.default_rng(runs)
    wrong = 0
    for _ in range(400):
        base, other = (
            BootstrapScores(rng.normal(scale=0.1, size=200), rng.normal(size=runs)) for _ in range(2)
        )
        wrong += mean_gain([(base, other)], same_runs=same).verdict != "within chance"
    assert wrong <= 34  # 20 are expected; more than 34 has a chance of 1 in 1,000


def test_runs_that_agree_prove_a_gain_as_the_t_test_does():
    pairs = np.zeros(1000)
    gains = np.array([1.0, 1.2, 0.9])
    found = mean_gain([(BootstrapScores(pairs, np.zeros(3)), BootstrapScores(pairs, gains))])
    expected = ttest_1samp(gains, 0).confidence_interval()
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    apart = mean_gain([(BootstrapScores(pairs, gains - 1), BootstrapScores(pairs, gains))], same_runs=False)
    welch = ttest_ind(gains, gains - 1, equal_var=False).confidence_interval()
    assert (apart.low, apart.high) == pytest.approx((welch.low, welch.high))


@pytest.mark.parametrize(
    ("gold", "similarities"), [([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [4, 4, 4]), ([1], [1])]
)
def test_undefined_correlations_are_errors(gold, similarities):
    with pytest.raises(InputError, match="a rank correlation needs different"):
        spearman(gold, np.array(similarities, dtype=float))


def test_mean_interval_covers_the_mean():
    values = np.random.default_rng(0).normal(loc=1, size=500)
    found = mean_interval(values)
    error = values.std(ddof=1) / np.sqrt(500)
    assert found.value == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - 1.96 * error, abs=0.2 * error)
    assert found.high == pytest.approx(values.mean() + 1.96 * error, abs=0.2 * error)


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(0.1, 1, "better"), (-1, -0.1, "worse"), (-1, 1, "within chance")]
)
def test_verdicts(low, high, verdict):
    assert Interval(0.0, low, high).verdict == verdict


def test_uniformity_and_alignment_by_their_published_formulas():
    """Wang and Isola's own code: pdist(x) ** 2 * -t, mean, log; and the mean squared distance."""
    x, y = unit_vectors(150, 8), unit_vectors(150, 8, seed=1)
    assert uniformity(x) == pytest.approx(
        float(torch.pdist(x.double(), p=2).pow(2).mul(-2).exp().mean().log()), abs=1e-6
    )
    assert alignment(x, y) == pytest.approx(float((x - y).norm(dim=1).pow(2).mean()), rel=1e-5)
    three = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    assert uniformity(three) == pytest.approx(np.log((2 * np.exp(-4) + np.exp(-8)) / 3))


def test_uniformity_in_parts(monkeypatch):
    x = unit_vectors(100, 5)
    whole = uniformity(x)
    monkeypatch.setattr("vector_spaces._CHUNK", 700)
    assert uniformity(x) == pytest.approx(whole)
    assert hubness(x) == pytest.approx(k_occurrence_skewness(x, 10))


def k_occurrence_skewness(x, k):
    found = NearestNeighbors(n_neighbors=k + 1, metric="cosine").fit(x.numpy()).kneighbors(x.numpy())[1]
    others = [[j for j in row if j != i][:k] for i, row in enumerate(found)]
    return skew(np.bincount(np.concatenate(others), minlength=len(x)))


def test_hubness_by_scikit_learns_neighbors():
    x = unit_vectors(300, 6)
    assert hubness(x, k=5) == pytest.approx(k_occurrence_skewness(x, 5))


def test_hubs_are_seen():
    rows = torch.randn(400, 64, generator=torch.Generator().manual_seed(0))
    even = torch.nn.functional.normalize(rows, dim=1)
    centre = torch.nn.functional.normalize(rows * torch.linspace(0.3, 1, 400)[:, None] + 0.6, dim=1)
    assert hubness(centre) > hubness(even) + 0.5


def test_spread_of_known_covariances():
    rng = np.random.default_rng(0)
    flat = torch.from_numpy(np.kron(np.eye(4), [[1.0], [-1.0]]))  # variance alike in four directions
    assert spread(flat).effective_rank == pytest.approx(4)
    assert spread(flat).first_share == pytest.approx(0.25)
    assert spread(flat).mean_norm == pytest.approx(0)
    line = torch.from_numpy(np.outer(rng.normal(size=50), [3.0, 4.0]) + 1)
    assert spread(line).effective_rank == pytest.approx(1)
    assert spread(line).first_share == pytest.approx(1)
