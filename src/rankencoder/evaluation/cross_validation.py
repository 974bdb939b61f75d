"""What choosing gains on pairs that had no part in the choice: cross-validation and its bootstrap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rankencoder.errors import InputError
from rankencoder.evaluation.folds import Groups
from rankencoder.evaluation.statistics import ROUNDS, Interval, resample, resampled_spearman
from rankencoder.io.pairs import ScoredPair

FEWEST = 30
"""Pairs that a set must have: a choice on fewer could hardly be told from chance."""

_ROUNDS_AT_ONCE = 100


@dataclass(frozen=True)
class DevSet:
    """Scored pairs, and what every candidate says of them.

    :param name: What to call it, its file say.
    :param pairs: Sentences and gold scores.
    :param similarities: ``[candidates, pairs]``, plain cosine first.
    """

    name: str
    pairs: Sequence[ScoredPair]
    similarities: np.ndarray

    def __post_init__(self) -> None:
        check_pairs(self.name, self.pairs)

    @cached_property
    def gold(self) -> np.ndarray:
        """The gold scores."""
        return np.array([pair.score for pair in self.pairs], dtype=np.float64)

    def correlations(self, candidate: int, masks: np.ndarray) -> np.ndarray:
        """Return Spearman's correlation of the pairs in each mask; 0 where all values are equal."""
        return np.asarray(np.nan_to_num(resampled_spearman(self.gold, self.similarities[candidate], masks)))


def check_pairs(name: str, pairs: Sequence[ScoredPair]) -> None:
    """Refuse pairs that nothing can be chosen by.

    :raises InputError: If there are fewer than 30, or all have the same score.
    """
    if len(pairs) < FEWEST:
        raise InputError(
            f"{name}: {len(pairs)} scored pair(s) are too few to choose by; at least {FEWEST} are "
            "needed, some hundreds are better"
        )
    if len({pair.score for pair in pairs}) == 1:
        raise InputError(f"{name}: all scores are {pairs[0].score:g}, so nothing can correlate with them")


@dataclass(frozen=True)
class Cell:
    """Pairs of one set with plain cosine's similarities and those of what is tried on them.

    :param groups: The group of each pair.
    :param tried: ``[tried, pairs]``.
    """

    gold: np.ndarray
    groups: np.ndarray
    cosine: np.ndarray
    tried: np.ndarray


def cross_validate(
    sets: Sequence[DevSet], groups: Groups, folds: Sequence[np.ndarray]
) -> tuple[list[int], Interval]:
    """Let each fold choose on the others, and score the choice on its own pairs against plain cosine.

    :param folds: The fold of each pair of each set.
    :return: The number of the candidate that each fold chose, and the gain with its 95% interval.
    :raises InputError: If all scores within each fold are equal.
    """
    number = 1 + max(int(rows.max()) for rows in folds)
    scores = np.zeros((len(sets[0].similarities), number))
    for dev, fold in zip(sets, folds, strict=True):
        others = (fold != np.arange(number)[:, None]).astype(np.uint16)
        scores += [dev.correlations(i, others) for i in range(len(scores))]
    chosen = [int(best) for best in scores.argmax(axis=0)]  # of equals the first: plain cosine
    cells: list[list[Cell]] = []
    for dev, labels, fold in zip(sets, groups.labels, folds, strict=True):
        cells.append([])
        for i, candidate in enumerate(chosen):
            own = fold == i
            if own.any():
                cosine, tried = dev.similarities[0, own], dev.similarities[[candidate]][:, own]
                cells[-1].append(Cell(dev.gold[own], labels[own], cosine, tried))
    return chosen, gain_intervals(cells, groups.number)[0]


def gain_intervals(sets: Sequence[Sequence[Cell]], groups: int) -> list[Interval]:
    """Return the mean gain over plain cosine of each that is tried, with 95% intervals that hold for all.

    A paired bootstrap: whole groups are resampled, over all folds at once, for pairs that share a sentence
    are not independent. A resample in which no correlation is defined is left out. The intervals are as many
    standard errors wide as the largest deviation among all that are tried has in 95% of the resamples (max-t,
    Romano and Wolf 2005): the best of many is not taken for better because there are many. As the bootstrap
    of few groups is too narrow, they are expanded as by Hesterberg (2015).

    :param sets: For each set its cells, whose gains are averaged by their numbers of pairs; the mean over the
        sets counts.
    :raises InputError: If no gain is defined, all scores of each cell being equal.
    """
    values = mean_gains(sets, np.ones((1, groups), dtype=np.uint16))[:, 0]
    resampled = np.concatenate([mean_gains(sets, counts) for counts in _resamples(groups)], axis=1)
    resampled = resampled[:, np.isfinite(resampled).all(axis=0)]
    if not np.isfinite(values).all() or resampled.shape[1] < 2:
        raise InputError(
            "the scores of pairs that share sentences are all equal, so no choice can be tested on them: "
            "give pairs whose scores differ"
        )
    errors = resampled.std(axis=1)
    deviations = np.abs(resampled - values[:, None]) / np.maximum(errors, 1e-12)[:, None]
    half = errors * np.quantile(deviations.max(axis=0), 0.95) * _expansion(groups)
    return [Interval(float(v), float(v - h), float(v + h)) for v, h in zip(values, half, strict=True)]


def mean_gains(sets: Sequence[Sequence[Cell]], counts: np.ndarray) -> np.ndarray:
    """Return the mean gain of each that is tried in each resample.

    :param counts: ``[rounds, groups]``: how often each group is drawn.
    :return: ``[tried, rounds]``.
    """
    means = np.zeros((len(sets[0][0].tried), len(counts)))
    for cells in sets:
        total, weight = np.zeros_like(means), np.zeros(len(counts))
        for cell in cells:
            drawn = counts[:, cell.groups]
            cosine = resampled_spearman(cell.gold, cell.cosine, drawn)
            pairs = drawn.sum(axis=1) * np.isfinite(cosine)
            weight += pairs
            for row, tried in zip(total, cell.tried, strict=True):
                gain = np.nan_to_num(resampled_spearman(cell.gold, tried, drawn)) - np.nan_to_num(cosine)
                row += gain * pairs
        with np.errstate(invalid="ignore"):
            means += total / weight / len(sets)
    return means


def _expansion(number: int) -> float:
    """Return how much wider than its bootstrap an interval is by rights.

    >>> [round(_expansion(number), 3) for number in (10, 100, 1000)]
    [1.217, 1.017, 1.002]
    """
    from scipy.stats import norm, t

    return float(t.ppf(0.975, number - 1) / norm.ppf(0.975) * (number / (number - 1)) ** 0.5)


def _resamples(number: int) -> Iterator[np.ndarray]:
    """Yield bootstrap samples, some at a time for the memory's sake."""
    for seed in range(ROUNDS // _ROUNDS_AT_ONCE):
        yield resample(number, rounds=_ROUNDS_AT_ONCE, seed=seed)
