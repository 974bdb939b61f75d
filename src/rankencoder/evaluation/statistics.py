"""Correlations, and differences between them with bootstrap intervals."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rankencoder.errors import InputError

ROUNDS = 1000  # bootstrap samples
RESAMPLED = 2**19  # values at a time: a dozen such arrays are alive at once


class Interval(NamedTuple):
    """A value with its 95% bootstrap interval."""

    value: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Whether a difference is more than chance."""
        return "better" if self.low > 0 else "worse" if self.high < 0 else "within chance"

    @classmethod
    def of(cls, value: float, resampled: np.ndarray) -> Interval:
        """Return the interval of a value, given its bootstrap samples."""
        low, high = np.quantile(resampled, [0.025, 0.975])
        return cls(float(value), float(low), float(high))


def spearman(gold: Sequence[float] | np.ndarray, similarities: np.ndarray) -> float:
    """Return Spearman's rank correlation.

    >>> round(spearman([1, 2, 3, 4], np.array([0.1, 0.4, 0.2, 0.9])), 3)
    0.8
    """
    from scipy.stats import spearmanr

    scores = np.asarray(gold, dtype=np.float64)
    for values, what in ((scores, "scores"), (similarities, "similarities")):
        if len(values) < 2 or np.ptp(values) == 0:
            raise InputError(f"a rank correlation needs different {what}: all {len(values)} are equal")
    return float(spearmanr(scores, similarities).statistic)


@functools.lru_cache(maxsize=16)
def resample(number: int, *, rounds: int = ROUNDS, seed: int = 0) -> np.ndarray:
    """Return how often each of a number of items is in each bootstrap sample, ``[rounds, number]``."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(number, np.full(number, 1 / number), size=rounds).astype(np.uint16)


def set_seed(name: str) -> int:
    """Return the seed for resampling a set: every system is scored on the same draws of its pairs."""
    return zlib.crc32(name.encode())


def resampled_spearman(gold: np.ndarray, similarities: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return Spearman's correlation of each row of similarities in each bootstrap sample, ``[rows, rounds]``.

    NaN in a sample whose values are all equal. Nothing is sorted per sample: the values are sorted once, and
    how often each is drawn gives the ranks.

    :param counts: ``[rounds, n]`` from `resample`.
    """
    found = []
    for part in np.array_split(counts, max(1, counts.size // RESAMPLED)):
        drawn = np.ascontiguousarray(part.T, dtype=np.float64)  # items first: whole rows are reordered, fast
        a = _centered_ranks(gold, drawn)
        drawn_a = drawn * a
        squares = _sums(drawn_a, a)
        correlations = []
        for row in np.atleast_2d(similarities):
            b = _centered_ranks(row, drawn)
            with np.errstate(invalid="ignore", divide="ignore"):
                correlations.append(_sums(drawn_a, b) / np.sqrt(squares * _sums(drawn * b, b)))
        found.append(correlations)
    return np.concatenate(found, axis=1)


def _sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("ir,ir->r", a, b))


def _centered_ranks(values: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Return each value's average rank in each sample (``drawn`` is ``[n, samples]``), less the mean rank."""
    order = np.argsort(values, kind="stable")
    _, first, group = np.unique(values[order], return_index=True, return_inverse=True)
    total = np.zeros((len(values) + 1, drawn.shape[1]))
    np.cumsum(drawn[order], axis=0, out=total[1:])
    bounds = total[[*first, len(values)]]
    middle = (bounds[:-1] + bounds[1:] - total[-1]) / 2
    place = np.empty_like(order)
    place[order] = group
    return np.asarray(middle[place])


class BootstrapScores(NamedTuple):
    """A score in each bootstrap sample of the pairs (the mean over runs), and in each run."""

    samples: np.ndarray
    runs: np.ndarray


def mean_gain(sets: Sequence[tuple[BootstrapScores, BootstrapScores]], *, same_runs: bool = True) -> Interval:
    """Return how much better one similarity scores than another, with its 95% interval.

    Both must have been scored on the same resampled pairs: the bootstrap is paired. For several sets, each
    resampled by itself, the gain is the mean of their gains, as is usual. With several runs, the interval
    also covers their spread, by Student's t: a bootstrap of three runs would mistake chance for a difference
    in one case in four.

    :param sets: For each set the similarity to beat, and the other one.
    :param same_runs: Whether the runs of both are paired.
    """
    samples = np.mean([other.samples - base.samples for base, other in sets], axis=0)
    samples = samples[np.isfinite(samples)]
    base, other = (np.mean([pair[side].runs for pair in sets], axis=0) for side in (0, 1))
    value = float(other.mean() - base.mean())
    runs = [other - base] if same_runs and len(base) == len(other) else [base, other]
    spreads = [(float(run.var(ddof=1)) / len(run), len(run) - 1) for run in runs if len(run) > 1]
    if not spreads:
        return Interval.of(value, samples)
    return _t_interval(value, float(samples.var()), spreads)


def _t_interval(value: float, of_pairs: float, of_runs: list[tuple[float, int]]) -> Interval:
    """Return a 95% interval from a well-known variance and those of few runs, pooled as by Welch."""
    from scipy.stats import norm, t

    total = sum(variance for variance, _ in of_runs)
    doubt = sum(variance**2 / freedom for variance, freedom in of_runs)
    factor = t.ppf(0.975, total**2 / doubt) if doubt > 0 else 0.0
    half = float(np.sqrt(norm.ppf(0.975) ** 2 * of_pairs + factor**2 * total))
    return Interval(value, value - half, value + half)


def mean_interval(values: np.ndarray) -> Interval:
    """Return a mean with its bootstrap interval."""
    rng = np.random.default_rng(0)
    means = values[rng.integers(0, len(values), (2000, len(values)))].mean(axis=1)
    return Interval.of(float(values.mean()), means)
