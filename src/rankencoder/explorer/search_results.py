"""What the third tab finds: sentences of an index or of the reference corpus, and near-duplicates."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from rankencoder.errors import InputError
from rankencoder.model import RankEncoder
from rankencoder.search.calibration import Calibration
from rankencoder.search.filters import parse_filter
from rankencoder.search.hits import Hit
from rankencoder.search.index_encoder import REFERENCE
from rankencoder.search.near_duplicates import (
    EXACT,
    THRESHOLD,
    Duplicates,
    compare_all,
    find_duplicates,
)

MOST_HITS = 100
MOST_PAIRS = 20_000
_HELD = 150_000_000  # numbers of the vectors of a reference corpus that are held to be searched


class Searcher(ABC):
    """Searches some sentences, which have columns besides id and text.

    :param what: What they are, for people.
    :param calibration: What scores mean, if there are enough sentences to tell.
    """

    def __init__(self, what: str, columns: list[str], calibration: Calibration | None) -> None:
        self.what, self.columns, self.calibration = what, columns, calibration
        self._comparing = threading.Lock()

    @property
    def usual(self) -> str:
        """The share of random pairs from which on pairs are near-duplicates, unless one is given."""
        if self.calibration is None:
            return ""
        at = self.calibration.similarity_at(min(THRESHOLD, self.calibration.finest))
        return self.calibration.percent(at)

    def search(self, query: str, k: int, where: str = "") -> list[Hit]:
        """Find the sentences nearest to a query, of those that pass a filter."""
        if not 1 <= k <= MOST_HITS:
            raise InputError(f"from 1 to {MOST_HITS} results can be shown")
        return self._find(query.strip(), int(k), parse_filter([where]) if where.strip() else None)

    def near_duplicates(self, threshold: str = "") -> Duplicates:
        """Find pairs of sentences that are nearly the same; a threshold as `find_duplicates` takes it."""
        with self._comparing:  # several at once would each be slower than one after the other
            return self._duplicates(threshold.strip() or None)

    @abstractmethod
    def _find(self, query: str, k: int, where: dict[str, Any] | None) -> list[Hit]: ...

    @abstractmethod
    def _duplicates(self, threshold: str | None) -> Duplicates: ...


class IndexSearch(Searcher):
    """Searches an index, whose model encodes while it holds the lock."""

    def __init__(self, index: Any, encoding: threading.RLock) -> None:
        _ = index.model  # checked now, and not at the first search
        what = f"the {len(index):,} sentences of the index {index.folder.path.resolve().name}"
        super().__init__(what, index.columns, index.calibration)
        self.index, self._encoding = index, encoding

    def _find(self, query: str, k: int, where: dict[str, Any] | None) -> list[Hit]:
        with self._encoding:
            hits: list[Hit] = self.index.search(query, k, where=where)
        return hits

    def _duplicates(self, threshold: str | None) -> Duplicates:
        if len(self.index) > EXACT:
            raise InputError(f"{len(self.index):,} sentences are too many to compare on a page")
        return find_duplicates(self.index, threshold=threshold, most=MOST_PAIRS)


class ReferenceSearch(Searcher):
    """Searches the reference corpus itself, or as much of it as fits into memory."""

    def __init__(
        self, model: RankEncoder, encode: Callable[[str], np.ndarray], calibration: Calibration
    ) -> None:
        number = max(2, min(len(model.reference), _HELD // model.dimension))
        part = "" if number == len(model.reference) else f"{number:,} of "
        super().__init__(f"{part}the {len(model.reference):,} sentences of {REFERENCE}", [], calibration)
        self.model, self.encode = model, encode
        self.sentences = model.reference.sentences[:number]  # in random order

    @cached_property
    def vectors(self) -> np.ndarray:
        """The model's vectors of the sentences."""
        return np.asarray(self.model.blend(self.model.form.reference[: len(self.sentences)]).cpu().numpy())

    def _find(self, query: str, k: int, where: dict[str, Any] | None) -> list[Hit]:
        if where is not None:
            raise InputError("a reference corpus has no columns to filter by: give an index")
        assert self.calibration is not None
        scores = self.vectors @ self.encode(query)
        best = np.argsort(-scores, kind="stable")[:k].tolist()
        percentiles = self.calibration.percentile(scores[best]).tolist()
        return [
            Hit(str(i), self.sentences[i], float(scores[i]), percentile)
            for i, percentile in zip(best, percentiles, strict=True)
        ]

    def _duplicates(self, threshold: str | None) -> Duplicates:
        assert self.calibration is not None
        return compare_all(self.sentences, self.vectors, self.calibration, threshold, MOST_PAIRS)
