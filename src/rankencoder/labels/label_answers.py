"""Labeled pairs as answers: from a sitting, where all counts are known, or from any file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rankencoder.errors import InputError
from rankencoder.io.pairs import ScoredPair, read_scored_pairs, read_weights
from rankencoder.labels.pair_pool import BINS, cut_bins
from rankencoder.labels.same_posterior import Answers

FEWEST = 20  # answers that say anything about a threshold
_DRAWS = 1000
_WORST = 0.35  # error rate of a labeler whose answers still say something


def read_labels(path: str | Path) -> tuple[list[ScoredPair], np.ndarray, np.ndarray]:
    """Return the pairs of a file, whether each means the same, and how many pairs each stands for.

    :raises InputError: If there are other labels than yes and no, or too few.
    """
    pairs = read_scored_pairs(path, check=False)
    if len(pairs) < FEWEST:
        raise InputError(f"{path}: {len(pairs)} answers are too few for a threshold: label at least {FEWEST}")
    weights = read_weights(path, len(pairs))
    scores = np.array([pair.score for pair in pairs])
    number = len(np.unique(scores))
    if number == 1:
        raise InputError(f"{path}: all labels are {scores[0]:g}: a threshold needs both yes and no")
    if number > 2:
        raise InputError(f"{path}: a threshold needs yes/no labels, but there are {number} different scores")
    same = scores == scores.max()
    return pairs, same, weights


def answers_of_sample(
    similarities: np.ndarray, same: np.ndarray, weights: np.ndarray, *, seed: int = 0
) -> tuple[Answers, np.ndarray]:
    """Return answers of a weighted random sample of pairs, and draws of how many pairs are in each bin.

    Pairs of different weights that share a bin count as their effective number, (Σw)²/Σw². The sizes of bins
    are drawn by the Bayesian bootstrap (Rubin, 1981).
    """
    edges, places = cut_bins(similarities)
    weights = weights / weights.max()
    total, squares, yes = (np.bincount(places, w, BINS) for w in (weights, weights**2, weights * same))
    asked = total**2 / np.maximum(squares, 1e-12)
    drawn = np.random.default_rng(seed).exponential(size=(_DRAWS, len(weights))) * weights
    populations = drawn @ (places[:, None] == np.arange(BINS))
    return Answers(edges, total, asked, asked * yes / np.maximum(total, 1e-12)), populations


def draw_error_rates(errors: int, checks: int, *, seed: int = 0) -> np.ndarray | None:
    """Return how often a labeler may err, drawn from the posterior; None if no error was seen."""
    if not errors:
        return None
    rng = np.random.default_rng(seed)
    return np.minimum(rng.beta(errors + 0.5, max(checks - errors, 0) + 0.5, _DRAWS), _WORST)
