"""Folds of scored pairs that share no sentence: a choice made on some says something of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rankencoder.io.pairs import ScoredPair

FEWEST_FOLDS, FOLDS = 3, 10
_PER_FOLD = 50  # pairs of a set in a fold, where there are enough: correlations of fewer are mostly noise
_GROUPS = 5  # a bootstrap over fewer says nothing


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
