"""The metric of a set of pairs: Spearman's correlation, or average precision for yes/no labels.

On yes/no labels a perfect similarity has a Spearman of at most 0.87, and an average precision of 1. The
metrics equal scikit-learn's, but are computed in all bootstrap samples at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rankencoder.evaluation.statistics import (
    RESAMPLED,
    BootstrapScores,
    Interval,
    resample,
    resampled_spearman,
    spearman,
)

FIGURES = {
    "average_precision": ("average precision", 1),
    "auc": ("AUC", 1),
    "best_f1": ("best F1", 1),
    "threshold": ("at similarity", 3),
}  # titles and digits for tables
RECALLS = tuple(range(5, 101, 5))  # percent, points of the curve


class AcceptedCounts(NamedTuple):
    """Counts of accepted pairs at each threshold, from the highest down, ``[thresholds, samples]``."""

    thresholds: np.ndarray
    yes: np.ndarray
    all: np.ndarray

    @property
    def precision(self) -> np.ndarray:
        """The share of yes among the accepted pairs; 0 if there are none."""
        return np.asarray(self.yes / np.maximum(self.all, 1e-12))

    def average_precision(self) -> np.ndarray:
        """Return Σ (Rₙ − Rₙ₋₁) Pₙ; NaN without a yes."""
        return _share((np.diff(self.yes, axis=0, prepend=0) * self.precision).sum(axis=0), self.yes[-1])

    def auc(self) -> np.ndarray:
        """Return how often a yes is more similar than a no, ties counting half; NaN without either."""
        no = self.all - self.yes
        above = no - np.diff(no, axis=0, prepend=0) / 2
        misplaced = (np.diff(self.yes, axis=0, prepend=0) * above).sum(axis=0)
        return 1 - _share(misplaced, self.yes[-1] * no[-1])

    def best_f1(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the best F1 and its threshold: a pair is a yes if it is at least that similar."""
        f1 = 2 * self.yes / np.maximum(self.all + self.yes[-1], 1e-12)
        return f1.max(axis=0), self.thresholds[f1.argmax(axis=0)]

    def places(self) -> np.ndarray:
        """Return which threshold is the first to reach each of the `RECALLS`, ``[recalls, samples]``."""
        wanted = np.outer(np.array(RECALLS) / 100, self.yes[-1]) - 1e-9
        columns = zip(self.yes.T, wanted.T, strict=True)
        return np.stack([np.searchsorted(yes, levels) for yes, levels in columns], axis=1)


def accept(gold: np.ndarray, similarities: np.ndarray, counts: np.ndarray) -> AcceptedCounts:
    """Count the accepted pairs at each threshold; the higher of the two gold values is a yes.

    :param counts: How often each pair is in a sample, or its weight there, ``[samples, pairs]``.
    """
    order = np.argsort(-similarities, kind="stable")
    values = similarities[order]
    last = np.flatnonzero(np.append(np.diff(values) != 0, True))  # equal similarities are accepted together
    drawn = counts.T[order].astype(np.float64)
    is_yes = (gold > gold.min())[order, None]
    return AcceptedCounts(
        values[last], np.cumsum(drawn * is_yes, axis=0)[last], np.cumsum(drawn, axis=0)[last]
    )


def average_precision(gold: np.ndarray, similarities: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return the average precision of similarities where the higher of two gold values is a yes.

    >>> average_precision(np.array([1, 0, 1, 0]), np.array([0.9, 0.8, 0.7, 0.1]))  # (1 + 2/3) / 2
    0.8333333333333333
    """
    if not np.isfinite(similarities).all():  # as after a diverged training
        return float("nan")
    counts = YES_NO.weigh(np.ones((1, len(gold))), weights)
    return float(accept(gold, similarities, counts).average_precision()[0])


def resampled_average_precision(gold: np.ndarray, similarities: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the average precision of each row of similarities in each sample, ``[rows, samples]``."""
    found = []
    for part in _parts(counts):
        found.append([accept(gold, row, part).average_precision() for row in np.atleast_2d(similarities)])
    return np.concatenate(found, axis=1)


def yes_no_figures(
    gold: np.ndarray, similarities: np.ndarray, weights: np.ndarray | None = None, seed: int = 0
) -> dict[str, Any]:
    """Return the `FIGURES` and the curve, each with its 95% bootstrap interval; all but thresholds ×100."""
    whole = accept(gold, similarities, YES_NO.weigh(np.ones((1, len(gold))), weights))
    counts = YES_NO.weigh(resample(len(gold), seed=seed), weights)
    parts = [_figures(accept(gold, similarities, part)) for part in _parts(counts)]
    samples = np.concatenate(parts, axis=1)
    samples = samples[:, np.isfinite(samples).all(axis=0)]  # samples with both labels
    values = _figures(whole)[:, 0]
    found = [Interval.of(value, row) for value, row in zip(values, samples, strict=True)]
    precision, low, high = map(list, zip(*found[len(FIGURES) :], strict=True))
    return {
        **{name: one._asdict() for name, one in zip(FIGURES, found, strict=False)},
        "curve": {
            "recall": list(RECALLS),
            "threshold": whole.thresholds[whole.places()[:, 0]].tolist(),
            "precision": precision,
            "low": low,
            "high": high,
        },
    }


def _figures(accepted: AcceptedCounts) -> np.ndarray:
    """Return a row for each of the `FIGURES`, then the precisions along the curve."""
    f1, threshold = accepted.best_f1()
    figures = (100 * accepted.average_precision(), 100 * accepted.auc(), 100 * f1, threshold)
    precisions = np.take_along_axis(accepted.precision, accepted.places(), axis=0)
    return np.concatenate([figures, 100 * precisions])


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return np.asarray(part / whole)


def _parts(counts: np.ndarray) -> list[np.ndarray]:
    return np.array_split(counts, max(1, counts.size // RESAMPLED))


@dataclass(frozen=True)
class Metric:
    """A score of similarities against gold scores, 1 at best.

    :param pairs: Name of the kind of pairs.
    :param score: Takes gold scores, similarities and the pairs' weights, which correlations ignore.
    :param resampled: Takes gold scores, rows of similarities and ``[samples, n]`` counts; NaN if undefined.
    """

    name: str
    pairs: str
    score: Callable[..., float]
    resampled: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]

    def weigh(self, counts: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """Return ``[samples, n]`` counts times the pairs' weights; correlations ignore these."""
        is_weighted = self is not GRADED and weights is not None and (weights != 1).any()
        return counts * weights if is_weighted else counts

    def bootstrap(
        self,
        gold: np.ndarray,
        similarities: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        seed: int = 0,
    ) -> BootstrapScores:
        """Return the score, and its bootstrap samples.

        :param similarities: ``[n]``, or ``[runs, n]`` for several seeds.
        """
        rows = np.atleast_2d(similarities)
        counts = self.weigh(resample(len(gold), seed=seed), weights)
        samples = self.resampled(gold, rows, counts).mean(axis=0)
        return BootstrapScores(samples, np.array([self.score(gold, row, weights) for row in rows]))


GRADED = Metric("Spearman", "scored", lambda gold, row, _=None: spearman(gold, row), resampled_spearman)
YES_NO = Metric("average precision", "yes/no", average_precision, resampled_average_precision)


def metric_for(gold: Sequence[float] | np.ndarray) -> Metric:
    """Return the metric for gold scores: two distinct values are yes/no labels, the higher one yes.

    >>> metric_for([0, 1, 1]).name, metric_for([0, 2.5, 5]).name
    ('average precision', 'Spearman')
    """
    return YES_NO if len(np.unique(gold)) == 2 else GRADED


def joint_name(metrics: Iterable[Metric]) -> str:
    """Return the name of a mean over sets, each scored by its own metric.

    >>> joint_name([GRADED, GRADED]), joint_name([YES_NO, GRADED])
    ('Spearman', 'mean of average precision and Spearman')
    """
    names = sorted({metric.name for metric in metrics}, key=str.lower)
    return names[0] if len(names) == 1 else f"mean of {' and '.join(names)}"


def joint_pairs(metrics: Iterable[Metric]) -> str:
    """Return the name of the pairs of all sets.

    >>> joint_pairs([YES_NO, YES_NO]), joint_pairs([YES_NO, GRADED])
    ('yes/no', 'scored and yes/no')
    """
    return " and ".join(sorted({metric.pairs for metric in metrics}))
