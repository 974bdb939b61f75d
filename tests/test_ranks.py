import sys

import numpy as np
import pytest
import torch
import warm
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from peak_memory import PEAK
from scipy.stats import rankdata, spearmanr

from rankencoder import rank_similarity, rank_vectors, ranks
from rankencoder.errors import InputError

finite = st.floats(-1e6, 1e6, allow_nan=False, width=64)
few_values = st.integers(-3, 3).map(float)


def spearman_matrix(rows):
    """Spearman's correlations by scipy's ranks and numpy's corrcoef; 0 where a row is constant."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.nan_to_num(np.corrcoef(rankdata(rows, axis=1)))


@given(st.integers(2, 40).flatmap(lambda n: arrays(np.float64, (2, n), elements=finite | few_values)))
def test_inner_product_is_scipys_spearman(rows):
    z = rank_vectors(rows)
    if (rows == rows[:, :1]).all(axis=1).any():
        assert np.array_equal(z[(rows == rows[:, :1]).all(axis=1)].sum(), 0)
    else:
        assert z[0] @ z[1] == pytest.approx(spearmanr(*rows).statistic, abs=1e-12)
        assert np.allclose(z.mean(axis=1), 0, atol=1e-12)
        assert np.allclose(np.linalg.norm(z, axis=1), 1, atol=1e-12)


@given(arrays(np.float64, (1, 30), elements=st.floats(-20, 20, allow_subnormal=False)))
def test_only_the_order_counts(row):
    order = np.argsort(np.argsort(row, kind="stable")) + 0.0
    assert np.array_equal(rank_vectors(row), rank_vectors(5 * row))
    if len(np.unique(row)) == row.size:
        assert np.array_equal(rank_vectors(row), rank_vectors(np.exp(order)))


def test_the_papers_example():
    reference = np.array([(1, 0), (0, 1), (-1, 0), (0, -1), (0.6, 0.8)])
    queries = np.array([(0.8, 0.6), (0.28, 0.96), (-0.6, 0.8)])
    expected = [[1, 0.6, -0.1], [0.6, 1, 0.7], [-0.1, 0.7, 1]]
    assert np.allclose(rank_similarity(queries @ reference.T), expected)


def hostile_inputs(n):
    rng = np.random.default_rng(n)
    normal = rng.standard_normal((12, n))
    far_out, constant, near_constant, one_other = (
        normal.copy(),
        normal.copy(),
        np.ones((12, n)),
        np.ones((12, n)),
    )
    far_out[:, 7] = 3e38
    constant[0] = 0.25
    near_constant[:, : n // 100] = rng.random((12, n // 100))
    one_other[np.arange(12), rng.integers(0, 3, 12)] = rng.choice([0.9, 1.1], 12)
    sampled_ties = normal.copy()
    sampled_ties[:, :: n // 128] = 0.5
    base = rng.standard_normal(n)
    yield "normal", normal
    yield "cosines", np.tanh(0.1 * normal + 0.05)
    yield "heavy tails", rng.standard_cauchy((12, n))
    yield "heavier tails", np.sign(normal) * np.exp(np.abs(5 * normal))
    yield "skewed", rng.lognormal(0, 3, (12, n))
    yield "clusters", rng.integers(0, 5, (12, n)) + 1e-5 * normal
    yield "many ties", rng.integers(0, 50, (12, n)).astype(float)
    yield "few ties", np.round(normal, 3)
    yield "one far outlier", far_out
    yield "a constant row", constant
    yield "nearly constant", near_constant
    yield "all but one constant", one_other
    yield "ties where the sample looks", sampled_ties
    yield "nearly equal rows", base + normal * np.logspace(-8, 0, 12)[:, None]
    yield "ascending", np.broadcast_to(np.arange(n, dtype=float), (12, n)) + normal
    for size in (2, 4, 12, 40):
        cluster = np.repeat(rng.random(n // size + 1), size)[:n]
        yield (
            f"clusters of {size} that another row orders",
            np.stack([cluster + 1e-6 * base, base, normal[0]]),
        )
    even = np.repeat(rng.permutation(2500), n // 2500 + 1)[:n] / 2500
    yield "evenly spread clusters that another row orders", np.stack([even + 1e-6 * base, base])
    yield "sawtooth", np.stack([base, *(np.modf(base * k)[0] for k in range(1, 12))])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1_000, 9_999, 10_000, 30_000, 100_000])
def test_counting_is_within_its_bound_on_hostile_inputs(n, dtype):
    for name, rows in hostile_inputs(n):
        rows = rows.astype(dtype)
        z = rank_vectors(rows, method="counting").astype(np.float64)
        assert np.abs(z @ z.T - spearman_matrix(rows) * _defined(z)).max() <= 1e-5, name


def _defined(z):
    """1 where neither row is constant (scipy's correlation is undefined there, ours 0)."""
    defined = (np.abs(z).max(axis=1) > 0).astype(float)
    return np.outer(defined, defined)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(10_000, 20_000),
    kind=st.sampled_from(["normal", "standard_cauchy", "random", "logistic", "gumbel"]),
    noise=st.floats(0, 3),
)
def test_counting_agrees_with_scipy(seed, n, kind, noise):
    rng = np.random.default_rng(seed)
    first = getattr(rng, kind)(size=n)
    second = first + noise * getattr(rng, kind)(size=n)
    z = rank_vectors(np.stack([first, second]), method="counting")
    assert z[0] @ z[1] == pytest.approx(spearmanr(first, second).statistic, abs=1e-5)


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32), n=st.integers(3000, 20_000), noise=st.floats(0, 3))
def test_a_coarse_tolerance_is_kept_too(seed, n, noise):
    rng = np.random.default_rng(seed)
    first = rng.gumbel(size=n)
    second = first + noise * rng.standard_normal(n)
    z = rank_vectors(np.stack([first, second]), method="counting", tolerance=ranks.COARSE)
    assert z[0] @ z[1] == pytest.approx(spearmanr(first, second).statistic, abs=1e-4)


@pytest.mark.parametrize("tolerance", [ranks.TOLERANCE, ranks.COARSE])
def test_counting_does_count_and_fall_back(tolerance):
    n = 20_000
    bins = ranks._number_of_bins(n, tolerance)
    smooth = torch.from_numpy(np.random.default_rng(0).standard_normal((4, n)))
    cubes, bursts = ranks._rank_by_counting(smooth, torch.empty_like(smooth), bins)
    assert (cubes <= ranks._cubes_limit(n, tolerance)).all()
    assert (bursts <= ranks._bursts_limit(n, bins)).all()
    tied = smooth.round(decimals=1)
    cubes, _ = ranks._rank_by_counting(tied, torch.empty_like(tied), bins)
    assert (cubes > ranks._cubes_limit(n, tolerance)).all()


def test_ties_in_training_are_a_stable_argsort():
    rows = torch.tensor([[0.5, 0.1, 0.5, 0.9, 0.1]])
    z = ranks.training_rank_vectors(rows).numpy()
    assert np.argsort(z[0]).tolist() == [1, 4, 0, 2, 3]
    assert len(np.unique(z)) == 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_torch_and_numpy_agree(dtype):
    rows = torch.randn(3, 500, generator=torch.Generator().manual_seed(1)).to(dtype)
    z = rank_vectors(rows)
    assert isinstance(z, torch.Tensor)
    assert z.device == rows.device
    assert z.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert np.allclose(z.numpy(), rank_vectors(rows.double().numpy()), atol=1e-6)


def test_numpy_kinds_shapes_and_views():
    rows = np.random.default_rng(0).standard_normal((4, 60))
    assert rank_vectors(rows[0]).shape == (60,)
    assert rank_vectors(rows.astype(np.float32)).dtype == np.float32
    assert np.allclose(rank_vectors(rows[:, ::2]), rank_vectors(rows[:, ::2].copy()))
    assert rank_vectors(np.array([[3, 1, 2]])).dtype == np.float64
    rows.flags.writeable = False
    assert rank_vectors(rows).shape == (4, 60)
    assert rank_vectors(np.zeros((0, 5))).shape == (0, 5)
    for method in ("exact", "counting"):
        assert np.array_equal(rank_vectors(np.full((1, 5), 2.0), method=method), np.zeros((1, 5)))
        assert np.array_equal(rank_vectors(np.ones((1, 1)), method=method), np.zeros((1, 1)))
    assert np.allclose(rank_vectors(rows[::-1, ::-1])[::-1, ::-1], rank_vectors(rows))
    large = torch.tensor([[2**53, 2**53 + 1, 2**53 - 1]])
    assert rank_vectors(large - 2**53)[0].argsort().tolist() == [2, 0, 1]
    assert rank_vectors([[1, 3, 2]]).shape == (1, 3)


@pytest.mark.parametrize("method", ["exact", "counting"])
def test_chunks_do_not_change_the_result(monkeypatch, method):
    rows = np.random.default_rng(0).standard_normal((20, 10_000))
    whole = rank_vectors(rows, method=method)
    monkeypatch.setattr(ranks, "MEMORY_BUDGET", 3 * 10_000 * ranks._SORTING_SCRATCH)
    monkeypatch.setattr(ranks, "_CACHED_VALUES", 50_000)
    assert np.array_equal(rank_vectors(rows, method=method), whole)


def test_scratch_memory_stays_within_the_budget():
    code = f"""{PEAK}
import torch
from rankencoder import ranks
from rankencoder.ranks import rank_vectors
ranks.MEMORY_BUDGET = 64 * 2**20
rows = torch.rand(80, 100_000)
out = rank_vectors(rows[:2], method="exact")
before = peak()
rank_vectors(rows, method="exact")
used = 1024 * (peak() - before)
assert used < rows.nbytes + 1.2 * ranks.MEMORY_BUDGET, used
"""
    warm.run([sys.executable, "-c", code], check=True)


def test_the_budget_holds_for_read_only_and_half_precision_input():
    code = f"""{PEAK}
import numpy
from rankencoder import ranks
from rankencoder.ranks import rank_vectors
ranks.MEMORY_BUDGET = 64 * 2**20
rows = numpy.random.default_rng(0).random((150, 100_000), dtype=numpy.float32).astype(numpy.float16)
rows.flags.writeable = False
rank_vectors(rows[:2])
before = peak()
out = rank_vectors(rows)
used = 1024 * (peak() - before)
assert used < out.nbytes + 1.2 * ranks.MEMORY_BUDGET, used
"""
    warm.run([sys.executable, "-c", code], check=True)


def test_rank_similarity_of_two_sets():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 50)), rng.standard_normal((2, 50))
    expected = [[spearmanr(x, y).statistic for y in b] for x in a]
    assert np.allclose(rank_similarity(a, b), expected)
    mixed = rank_similarity(torch.from_numpy(a), torch.from_numpy(b).float())
    assert np.allclose(mixed.numpy(), expected, atol=1e-6)
    with pytest.raises(InputError, match="both be numpy arrays"):
        rank_similarity(a, torch.from_numpy(b))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rank_vectors(np.array([[1.0, np.nan]])), "row 0 of the similarities contains NaN"),
        (lambda: rank_vectors(np.array([[1.0, 2.0], [np.inf, 0.0]])), "row 1"),
        (lambda: rank_vectors(np.zeros((2, 0))), "shape"),
        (lambda: rank_vectors(np.zeros((2, 2, 2))), "shape"),
        (lambda: rank_vectors(np.array([["a"]])), "numbers"),
        (lambda: rank_vectors(np.zeros((1, 3)), method="quick"), "'auto', 'exact' or 'counting'"),
        (lambda: rank_similarity(np.zeros((1, 3)), np.zeros((1, 4))), "same reference corpus"),
    ],
)
def test_errors_say_what_to_do(call, message):
    with pytest.raises(InputError, match=message):
        call()
