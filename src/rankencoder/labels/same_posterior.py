"""P(same) as a function of the similarity: a Gaussian-process logistic regression on yes/no answers.

Similarities are cut into bins. The log-odds of "same" in the bins are a line plus a smooth deviation from it:
a priori ``f ~ N(slope·x, a² + b²·x·x' + s²·exp(−(x − x')²/2l²))``, with x the standardized similarity. The
size s and length scale l of the deviation are averaged over, weighted by the evidence. The posterior
is Laplace's approximation (Rasmussen and Williams, 2006, ch. 3), corrected by importance sampling.

Answers may be drawn from the bins in any proportion, even adaptively: within a bin they are random. The next
one comes from the bin that is most informative about precision at the threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.special import expit

_OFFSET, _SLOPE = 3.0, 2.0  # prior standard deviations of the line
_MEAN_SLOPE = 1.5  # a higher similarity makes "same" likelier
_DEVIATIONS, _LENGTHS = (0.3, 1.0, 2.0), (0.2, 0.6)
_NEWTON, _LARGEST_STEP = 30, 3.0
_PROPOSALS = 3  # draws of the approximation for each draw that is kept

FIRST = 20  # first questions, spread evenly over the similarities
_RECALL = 0.1  # weight of recall relative to precision
_SHARPEN = 3  # asking only the best bin would leave all others to the model of the curve
_EXPLORE = 0.1  # share of questions at random: the curve may have an unexpected shape


class _Fit(NamedTuple):
    """Laplace's approximation: mode, covariance, log evidence."""

    mode: np.ndarray
    covariance: np.ndarray
    evidence: float


@dataclass
class Answers:
    """Pairs, answers and yes answers in each bin.

    :param edges: The bins' edges, ``[bins + 1]``.
    """

    edges: np.ndarray
    population: np.ndarray
    asked: np.ndarray
    yes: np.ndarray


class SamePosterior:
    """The posterior of P(same) in each bin of similarities.

    >>> edges = np.linspace(0, 1, 11)
    >>> asked, yes = np.full(10, 8.0), np.array([0, 0, 0, 0, 1, 3, 5, 7, 8, 8.0])
    >>> posterior = SamePosterior(Answers(edges, np.full(10, 100.0), asked, yes))
    >>> posterior.mean.round(1)[[0, 5, 9]]
    array([0. , 0.3, 1. ])
    """

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        middle = (answers.edges[:-1] + answers.edges[1:]) / 2
        share = answers.population / answers.population.sum()
        center = share @ middle
        x = (middle - center) / max(np.sqrt(share @ (middle - center) ** 2), 1e-9)
        prior = _MEAN_SLOPE * x
        shapes = product(_DEVIATIONS, _LENGTHS)
        fits: list[_Fit] = []
        for shape in shapes:
            start = fits[-1].mode if fits else prior
            fits.append(_laplace(answers, _covariance(x, *shape), prior, start))
        evidence = np.array([fit.evidence for fit in fits])
        weights = np.exp(evidence - evidence.max())
        self._fits, self._weights = fits, weights / weights.sum()

    @property
    def mean(self) -> np.ndarray:
        """P(same) in each bin."""
        return np.asarray(expit(self.log_odds()[0]))

    def log_odds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and covariance of the log-odds."""
        mean = sum(w * fit.mode for w, fit in zip(self._weights, self._fits, strict=True))
        covariance = sum(
            w * (fit.covariance + np.outer(fit.mode - mean, fit.mode - mean))
            for w, fit in zip(self._weights, self._fits, strict=True)
        )
        return np.asarray(mean), np.asarray(covariance)

    def draw(self, number: int, rng: np.random.Generator) -> np.ndarray:
        """Draw P(same) of all bins, ``[number, bins]``."""
        drawn = []
        for fit, size in zip(self._fits, rng.multinomial(number, self._weights), strict=True):
            root = cholesky(fit.covariance + 1e-8 * np.eye(len(fit.mode)), lower=True)
            steps = rng.standard_normal((_PROPOSALS * size, len(fit.mode))) @ root.T
            weights = _importance(self.answers, fit.mode, steps)
            kept = rng.choice(len(steps), size=size, p=weights) if size else slice(0)
            drawn.append(expit(fit.mode + steps[kept]))
        return np.concatenate(drawn)


def _covariance(x: np.ndarray, deviation: float, length: float) -> np.ndarray:
    smooth = np.exp(-((x[:, None] - x) ** 2) / (2 * length**2))
    line = _OFFSET**2 + _SLOPE**2 * np.outer(x, x)
    return np.asarray(line + deviation**2 * smooth + 1e-6 * np.eye(len(x)))


def _laplace(answers: Answers, covariance: np.ndarray, prior: np.ndarray, start: np.ndarray) -> _Fit:
    """Find the mode by Newton's method (Rasmussen and Williams, algorithm 3.1)."""
    asked, yes = answers.asked, answers.yes
    f = start
    for _ in range(_NEWTON):
        p = expit(f)
        root = np.sqrt(np.maximum(asked * p * (1 - p), 1e-10))
        factor = cholesky(np.eye(len(f)) + root[:, None] * covariance * root, lower=True)
        b = root**2 * (f - prior) + yes - asked * p
        a = b - root * cho_solve((factor, True), root * (covariance @ b))
        step = covariance @ a + prior - f
        largest = np.abs(step).max()
        f = f + step * min(1.0, _LARGEST_STEP / max(largest, 1e-12))
        if largest < 1e-4:
            break
    half = solve_triangular(factor, root[:, None] * covariance, lower=True)
    likelihood = (yes * f - asked * np.logaddexp(0, f)).sum()
    evidence = likelihood - a @ (f - prior) / 2 - np.log(np.diag(factor)).sum()
    return _Fit(f, covariance - half.T @ half, float(evidence))


def _importance(answers: Answers, mode: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Weight draws of Laplace's approximation by the posterior itself: the prior is the same in both."""
    p = expit(mode)
    change = np.logaddexp(0, mode + steps) - np.logaddexp(0, mode)
    logs = steps @ (answers.asked * p) - change @ answers.asked
    logs += steps**2 @ (answers.asked * p * (1 - p)) / 2
    weights = np.exp(logs - logs.max(initial=-np.inf))
    return np.asarray(weights / weights.sum())


def bin_chances(answers: Answers, left: np.ndarray, precision: float) -> np.ndarray:
    """Return the probability of asking each bin next; all 0 if no pair is left.

    :param left: Number of pairs in each bin that can still be asked about.
    :param precision: The target precision of the threshold.
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
    """Return the expected reduction in the variance of precision and recall by an answer in each bin.

    Both are linearized in the log-odds; an answer changes their covariance by a rank-one matrix.
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
