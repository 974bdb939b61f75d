"""Find all pairs of vectors above a similarity, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankencoder.errors import InputError
from rankencoder.progress import Progress
from rankencoder.search.calibration import Calibration

_BLOCK, _WIDTH = 1024, 8192  # rows and columns of similarities to compute at once


@dataclass(frozen=True)
class Pair:
    """Two near-duplicates.

    :param a: The number of a sentence in `Duplicates.sentences`.
    :param b: A larger number; or, against another corpus, the number of a sentence there.
    :param percentile: The percentage of random pairs below the similarity.
    """

    a: int
    b: int
    similarity: float
    percentile: float


@dataclass(frozen=True, eq=False)
class Pairs(Sequence[Pair]):
    """Pairs as arrays, most similar first."""

    a: np.ndarray
    b: np.ndarray
    similarity: np.ndarray
    calibration: Calibration

    def __len__(self) -> int:
        return len(self.a)

    def __iter__(self) -> Iterator[Pair]:
        return iter(self[:])

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, slice):
            return self[key:][0] if key < 0 else self[key : key + 1][0]
        arrays = self.a[key], self.b[key], self.similarity[key]
        return list(map(Pair, *(x.tolist() for x in (*arrays, self.calibration.percentile(arrays[2])))))

    def above(self, level: float) -> Pairs:
        """Return the pairs at or above a similarity."""
        size = len(self) - np.searchsorted(self.similarity[::-1], np.float32(level))
        return self.take(slice(size))

    def take(self, which: Any) -> Pairs:
        """Return some of the pairs."""
        return Pairs(self.a[which], self.b[which], self.similarity[which], self.calibration)


def similar_pairs(
    sides: list[np.ndarray],
    calibration: Calibration,
    threshold: float,
    floor: float,
    most: int,
    progress: bool,
) -> tuple[Pairs, float]:
    """Compare all unit vectors of one corpus with each other, or those of two corpora.

    :param floor: The lowest similarity of a pair to keep; it rises when there are more than ``most``.
    :return: The pairs, and the similarity from which they are complete.
    :raises InputError: If more than ``most`` are at or above the threshold.
    """
    held: list[tuple[np.ndarray, ...]] = []
    size = above = 0
    level, vectors, columns = np.float32(floor), sides[0], sides[-1]
    starts = range(0, len(vectors), _BLOCK)
    for start in Progress(len(starts), desc="Comparing", unit="blocks", show=progress).over(starts):
        for other in range(start if len(sides) == 1 else 0, len(columns), _WIDTH):
            block = vectors[start : start + _BLOCK] @ columns[other : other + _WIDTH].T
            flat = np.flatnonzero(block.ravel() >= level)
            a, b = flat // block.shape[1] + start, flat % block.shape[1] + other
            once = (a < b) | (len(sides) == 2)
            held.append((a[once].astype(np.int32), b[once].astype(np.int32), block.ravel()[flat[once]]))
            size += len(held[-1][0])
            above += int(np.count_nonzero(held[-1][2] >= np.float32(threshold)))
            if above > most:
                raise InputError(f"more than {most:,} pairs: choose a higher threshold")
            if size > 2 * most:
                merged = [np.concatenate(values) for values in zip(*held, strict=True)]
                level = np.nextafter(np.partition(merged[2], -most - 1)[-most - 1], np.float32(2))
                held = [tuple(values[merged[2] >= level] for values in merged)]
                size = len(held[0][0])
    a, b, similarity = (np.concatenate(values) for values in zip(*held, strict=True))
    order = np.lexsort((b, a, -similarity))
    lowest = float(level) if level > np.float32(floor) else floor
    return Pairs(a[order], b[order], similarity[order], calibration), lowest


def document_pairs(pairs: Pairs, of_a: np.ndarray, of_b: np.ndarray, *, is_one: bool, least: float) -> Pairs:
    """Return the nearest passages of each pair of documents.

    :param of_a: The document of each passage; `of_b` those of the other corpus, or of the same (`is_one`).
    :param least: The share of passages that must have a pair in the other document, for both documents or,
        between two corpora, for the first.
    """
    swap = is_one & (of_a[pairs.a] > of_b[pairs.b])
    a, b = np.where(swap, pairs.b, pairs.a), np.where(swap, pairs.a, pairs.b)
    both = of_a[a].astype(np.int64) * (of_b.max() + 1) + of_b[b]
    enough = _share_matched(a, both, of_a) >= least
    if is_one:
        enough &= _share_matched(b, both, of_b) >= least
    first = np.unique(both, return_index=True)[1]  # the most similar comes first
    return pairs.take(np.sort(first[enough[first]]))


def _share_matched(passages: np.ndarray, pairs: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """Return, for each pair of passages, the share of its document's passages that such pairs match.

    :param pairs: The number of each pair's pair of documents.
    """
    matched = np.unique(np.column_stack([pairs, passages]), axis=0)[:, 0]
    found, counts = np.unique(matched, return_counts=True)
    sizes = np.bincount(documents)[documents[passages]]
    return np.asarray(counts[np.searchsorted(found, pairs)] / sizes)
