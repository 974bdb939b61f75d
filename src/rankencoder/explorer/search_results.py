"""What the third tab finds: sentences of an index or of the reference corpus, and near-duplicates."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankencoder.blend import blend_vectors
from rankencoder.errors import InputError
from rankencoder.explorer.once import Once
from rankencoder.io.corpus import LONGEST
from rankencoder.model import RankEncoder
from rankencoder.search.calibration import Calibration
from rankencoder.search.hits import Hit
from rankencoder.search.near_duplicates import (
    EXACT,
    THRESHOLD,
    Duplicates,
    compare_all,
    find_duplicates,
    parse_threshold,
)
from rankencoder.search.rank_index import REFERENCE
from rankencoder.server.filters import check_filter

MOST_HITS = 100
MOST_PAIRS = 20_000
_NUMBERS = 150_000_000  # of the vectors of a reference corpus that are held to be searched


@dataclass(frozen=True)
class Searched:
    """What is searched.

    :param what: What it is, for people.
    :param columns: Its columns besides id and text, to filter by.
    :param calibration: What scores mean, where there are enough sentences to tell.
    :param find: From a query, k and a filter to hits.
    :param duplicates: From a threshold to near-duplicates.
    """

    what: str
    columns: list[str]
    calibration: Calibration | None
    find: Callable[[str, int, str | None], list[Hit]]
    duplicates: Callable[[str | None], Duplicates]
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    def meaning(self, score: float) -> str:
        """Say what a score means."""
        return self.calibration.describe(score) if self.calibration else ""

    @property
    def usual(self) -> str:
        """The share of random pairs from which on pairs are near-duplicates, unless one is given."""
        if self.calibration is None:
            return ""
        at = self.calibration.similarity_at(min(THRESHOLD, self.calibration.finest))
        return self.calibration.percent(at)

    def search(self, query: str, k: int, where: str = "") -> list[Hit]:
        """Find the sentences nearest to a query.

        :param where: A filter in the server's grammar; LanceDB's own reader can be brought down by one.
        :raises InputError: If the query or the filter is at fault.
        """
        if len(query.strip()) > LONGEST:
            raise InputError(f"the query has {len(query.strip()):,} characters, and {LONGEST:,} are the most")
        if not 1 <= k <= MOST_HITS:
            raise InputError(f"from 1 to {MOST_HITS} results can be shown")
        condition = where.strip() or None
        if condition is not None:
            check_filter(condition, ["id", "text", *self.columns])
        return self.find(query.strip(), int(k), condition)

    def near_duplicates(self, threshold: str = "") -> Duplicates:
        """Find pairs of sentences that are nearly the same.

        :param threshold: A similarity or a share of random pairs; by default the highest useful one.
        :raises InputError: If it is neither, or there are too many pairs.
        """
        parse_threshold(threshold.strip() or None)
        with self._lock:  # several at once would each be slower than one after the other
            return self.duplicates(threshold.strip() or None)


def searched_index(index: Any, encode: Callable[[str], np.ndarray]) -> Searched:
    """Search an index.

    :param encode: From a sentence to its vector, by the index's model.
    """

    def find(query: str, k: int, where: str | None) -> list[Hit]:
        hits: list[Hit] = index.search(encode(query), k, where=where)
        return hits

    def duplicates(threshold: str | None) -> Duplicates:
        if len(index) > EXACT:
            raise InputError(
                f"{len(index):,} sentences are too many to compare on a page: rankencoder duplicates INDEX"
            )
        return find_duplicates(index, threshold=threshold, most=MOST_PAIRS)

    what = f"the {len(index):,} sentences of the index {index.folder.path.resolve().name}"
    return Searched(what, index.columns, index.calibration, find, duplicates)


def searched_reference(
    model: RankEncoder, encode: Callable[[str], np.ndarray], calibration: Calibration
) -> Searched:
    """Search the reference corpus itself, or as much of it as fits into memory.

    :param encode: From a sentence to the model's vector.
    """
    number = max(2, min(len(model.reference), _NUMBERS // model.dimension))
    vectors = Once(lambda: _vectors(model, number))
    sentences = model.reference.sentences[:number]

    def find(query: str, k: int, where: str | None) -> list[Hit]:
        if where is not None:
            raise InputError("a reference corpus has no columns to filter by: give an index")
        scores = vectors() @ encode(query)
        best = np.argsort(-scores, kind="stable")[:k].tolist()
        percentiles = calibration.percentile(scores[best]).tolist()
        return [
            Hit(str(i), sentences[i], float(scores[i]), percentile)
            for i, percentile in zip(best, percentiles, strict=True)
        ]

    def duplicates(threshold: str | None) -> Duplicates:
        return compare_all(sentences, vectors(), calibration, threshold, MOST_PAIRS)

    part = "" if number == len(model.reference) else f"{number:,} of "
    what = f"{part}the {len(model.reference):,} sentences of {REFERENCE}"
    return Searched(what, [], calibration, find, duplicates)


def _vectors(model: RankEncoder, number: int) -> np.ndarray:
    base = model.form.reference[:number]  # its sentences are in random order
    return np.asarray(blend_vectors(model.form(base), base, model.rank_weight).cpu().numpy())
