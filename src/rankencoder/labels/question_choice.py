"""Choose the next pair to label: the one that tells most about precision at the threshold."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from rankencoder.labels.same_posterior import Answers, SamePosterior

FIRST = 20  # questions that are spread evenly over the similarities
_RECALL = 0.1  # how much recall counts beside precision
_SHARPEN = 3  # the best bin alone would leave all others to the model of the curve
_EXPLORE = 0.1  # share of questions that go anywhere: the curve may have another shape than one thinks


def bin_chances(answers: Answers, left: np.ndarray, precision: float) -> np.ndarray:
    """Return how likely each bin is to be asked next; all 0 if no pair is left.

    :param left: How many pairs of each bin can still be asked.
    :param precision: The precision that a threshold is looked for.
    """
    is_open = left > 0
    number = int(answers.asked.sum())
    if number < FIRST:
        parts = np.array_split(np.flatnonzero(is_open), min(FIRST, max(1, is_open.sum())))
        chances = np.isin(np.arange(len(left)), parts[number % len(parts)])
    else:
        gain = np.where(is_open, information(answers, precision), 0)
        gain = (gain / max(gain.max(), 1e-300)) ** _SHARPEN
        chances = (1 - _EXPLORE) * gain / max(gain.sum(), 1e-300)
        chances += (1 - chances.sum()) * is_open / max(is_open.sum(), 1)
    return np.asarray(chances / max(chances.sum(), 1e-300))


def information(answers: Answers, precision: float) -> np.ndarray:
    """Return by how much an answer in each bin is expected to lower the variance of precision and recall.

    Both are linearised in the log-odds, whose covariance an answer changes by a matrix of rank one.
    """
    f, covariance = SamePosterior(answers).log_odds()
    p = expit(f)
    variance = p * (1 - p)
    pairs, same = answers.population, answers.population * p
    above, same_above = (np.cumsum(counts[::-1])[::-1] for counts in (pairs, same))
    precisions = same_above / np.maximum(above, 1e-12)
    enough = np.flatnonzero((precisions >= precision) & (above > 0))
    many = above >= max(10, 0.01 * above[0])
    at = int(enough[0]) if len(enough) else int(np.argmax(np.where(many, precisions, -1)))
    is_above = np.arange(len(p)) >= at
    recall = same_above[at] / max(same_above[0], 1e-12)
    by_precision = is_above * pairs * variance / max(above[at], 1e-12)
    by_recall = (is_above - recall) * pairs * variance / max(same_above[0], 1e-12)
    lowered = ((covariance @ by_precision) ** 2, _RECALL * (covariance @ by_recall) ** 2)
    return np.asarray(sum(lowered) * variance / (1 + variance * np.diag(covariance)))
