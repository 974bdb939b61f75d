"""The metric of a set of pairs: Spearman's correlation, or average precision for yes/no labels.

On yes/no labels a perfect similarity has a Spearman of 0.87 at most, and an average precision of 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rankencoder.evaluation.binary_pairs import average_precision, resampled_average_precision
from rankencoder.evaluation.statistics import Bootstrapped, resample, resampled_spearman, spearman


@dataclass(frozen=True)
class Metric:
    """A score of similarities, 1 at best, by people's scores of the same pairs.

    :param pairs: What to call the pairs that it is for.
    :param score: Takes gold scores and similarities.
    :param resampled: Takes gold scores, rows of similarities and ``[samples, n]`` counts; NaN if undefined.
    """

    name: str
    pairs: str
    score: Callable[[np.ndarray, np.ndarray], float]
    resampled: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]

    def bootstrap(self, gold: np.ndarray, similarities: np.ndarray, *, seed: int = 0) -> Bootstrapped:
        """Return the score, and what it is when the pairs are resampled.

        :param similarities: ``[n]``, or ``[runs, n]`` where the same was done with several seeds.
        """
        rows = np.atleast_2d(similarities)
        samples = self.resampled(gold, rows, resample(len(gold), seed=seed)).mean(axis=0)
        return Bootstrapped(samples, np.array([self.score(gold, row) for row in rows]))


GRADED = Metric("Spearman", "scored", spearman, resampled_spearman)
YES_NO = Metric("average precision", "yes/no", average_precision, resampled_average_precision)


def metric_for(gold: Sequence[float] | np.ndarray) -> Metric:
    """Return what suits the scores of a set: two different ones are yes and no, the higher being yes.

    >>> metric_for([0, 1, 1]).name, metric_for([0, 2.5, 5]).name
    ('average precision', 'Spearman')
    """
    return YES_NO if len(np.unique(gold)) == 2 else GRADED


def joint_name(metrics: Iterable[Metric]) -> str:
    """Return what the mean over sets, each by its own metric, is called.

    >>> joint_name([GRADED, GRADED]), joint_name([YES_NO, GRADED])
    ('Spearman', 'mean of average precision and Spearman')
    """
    names = sorted({metric.name for metric in metrics}, key=str.lower)
    return names[0] if len(names) == 1 else f"mean of {' and '.join(names)}"


def joint_pairs(metrics: Iterable[Metric]) -> str:
    """Return what the pairs of all sets are called.

    >>> joint_pairs([YES_NO, YES_NO]), joint_pairs([YES_NO, GRADED])
    ('yes/no', 'scored and yes/no')
    """
    return " and ".join(sorted({metric.pairs for metric in metrics}))
