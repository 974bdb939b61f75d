"""What choosing gains on pairs that had no part in the choice: cross-validation and its bootstrap.

Folds and resamples keep pairs together that share sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rankencoder.errors import InputError
from rankencoder.evaluation.statistics import ROUNDS, Interval, resample, resampled_spearman
from rankencoder.io.pairs import ScoredPair

FEWEST = 30  # pairs of a set: a choice on fewer could hardly be told from chance
FEWEST_FOLDS, FOLDS = 3, 10
_PER_FOLD = 50  # pairs of a set in a fold, where there are enough: correlations of fewer are mostly noise
_GROUPS = 5  # a bootstrap over fewer says nothing
_ROUNDS_AT_ONCE = 100


@dataclass(frozen=True)
class Groups:
    """What belongs together, and is never parted by folds or resampling.

    :param kind: "components": pairs that hang together by shared sentences; "sentences": where those would
        hold most pairs in one group, pairs that share their more frequent sentence; "pairs": where even that
        leaves too few groups, each pair by itself.
    :param labels: The group of each pair of each set, from 0.
    """

    kind: str
    labels: list[np.ndarray]

    @property
    def number(self) -> int:
        """How many groups there are."""
        return int(max(labels.max() for labels in self.labels)) + 1


def group_pairs(sets: Sequence[Sequence[ScoredPair]]) -> Groups:
    """Find the pairs that belong together because they share sentences, over all sets."""
    pairs = [pair for pairs in sets for pair in pairs]
    ids: dict[str, int] = {}
    edges = np.array([[ids.setdefault(text, len(ids)) for text in (pair.a, pair.b)] for pair in pairs])
    ends = np.cumsum([len(pairs) for pairs in sets])[:-1]
    for kind, labels in (("components", _components(edges, len(ids))), ("sentences", _hubs(pairs, ids))):
        _, labels = np.unique(labels, return_inverse=True)
        sizes = np.bincount(labels)
        if len(sizes) >= _GROUPS and sizes.max() <= len(pairs) / 2:
            return Groups(kind, np.split(labels, ends))
    return Groups("pairs", np.split(np.arange(len(pairs)), ends))


def _components(edges: np.ndarray, number: int) -> np.ndarray:
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    graph = coo_matrix((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(number, number))
    labels: np.ndarray = connected_components(graph, directed=False)[1][edges[:, 0]]
    return labels


def _hubs(pairs: Sequence[ScoredPair], ids: dict[str, int]) -> np.ndarray:
    """Return the number of each pair's more frequent sentence: its query, where there are queries."""
    seen = Counter(text for pair in pairs for text in {pair.a, pair.b})
    return np.array([ids[pair.a if seen[pair.a] >= seen[pair.b] else pair.b] for pair in pairs])


def assign_folds(groups: Groups, *, seed: int = 0) -> list[np.ndarray]:
    """Return the fold of each pair of each set: whole groups, at random, folds of about equal size.

    Ten folds, or as few as three where a set is so small that they would hold fewer than 50 of its pairs.
    """
    smallest = min(len(labels) for labels in groups.labels)
    number = max(FEWEST_FOLDS, min(FOLDS, smallest // _PER_FOLD))
    counts = np.stack([np.bincount(labels, minlength=groups.number) for labels in groups.labels])
    shares = counts / counts.sum(axis=1, keepdims=True)
    order = np.random.default_rng(seed).permutation(groups.number)
    order = order[np.argsort(-shares[:, order].sum(axis=0), kind="stable")]
    fold_of = np.empty(groups.number, dtype=np.int64)
    load = np.zeros((len(shares), number))
    for group in order:
        present = shares[:, group] > 0
        fold = fold_of[group] = load[present].sum(axis=0).argmin()
        load[:, fold] += shares[:, group]
    return [fold_of[labels] for labels in groups.labels]


@dataclass(frozen=True)
class DevSet:
    """Scored pairs, and what every candidate, plain cosine first, says of them: ``[candidates, pairs]``."""

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
    """Refuse pairs that nothing can be chosen by."""
    if len(pairs) < FEWEST:
        raise InputError(
            f"{name}: {len(pairs)} scored pair(s) are too few to choose by; at least {FEWEST} are "
            "needed, some hundreds are better"
        )
    if len({pair.score for pair in pairs}) == 1:
        raise InputError(f"{name}: all scores are {pairs[0].score:g}, so nothing can correlate with them")


@dataclass(frozen=True)
class Cell:
    """Pairs of one set: groups, cosines, and the similarities of all that is tried, ``[tried, pairs]``."""

    gold: np.ndarray
    groups: np.ndarray
    cosine: np.ndarray
    tried: np.ndarray


def cross_validate(
    sets: Sequence[DevSet], groups: Groups, folds: Sequence[np.ndarray]
) -> tuple[list[int], Interval]:
    """Let each fold choose on the others, and score the choice on its own pairs against plain cosine.

    :return: The number of the candidate that each fold chose, and the gain with its 95% interval.
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
    """Return the mean gain in each resample, ``[tried, rounds]``; the counts are of each group."""
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
