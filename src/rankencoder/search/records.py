"""The rows of a corpus or an index, and the text of each that is compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rankencoder.errors import InputError
from rankencoder.io.corpus import LONGEST, Sentence, read_sentences
from rankencoder.io.read_options import ReadOptions

if TYPE_CHECKING:
    from rankencoder.search.rank_index import RankIndex


class Record(NamedTuple):
    """A row: the text that is compared, where it is ("file, line 3", or its id), and all columns."""

    text: str
    place: str
    columns: dict[str, Any]


@dataclass
class Records:
    """The usable rows of a corpus.

    :param skipped: How many empty and over-long rows were left out.
    """

    rows: list[Record]
    skipped: int = 0

    @cached_property
    def places(self) -> dict[str, list[str]]:
        """Where each different text is."""
        places: dict[str, list[str]] = {}
        for row in self.rows:
            places.setdefault(row.text, []).append(row.place)
        return places

    @cached_property
    def texts(self) -> list[str]:
        """The different texts."""
        return list(self.places)

    def entry(self, number: int) -> dict[str, Any]:
        """Return a text and its places."""
        return {"text": self.texts[number], "places": self.places[self.texts[number]]}

    @classmethod
    def read(cls, corpus: Any, column: str | Sequence[str] | ReadOptions | None = None) -> Records:
        """Read what `read_sentences` reads.

        :param column: The column to compare, or several, joined by line breaks; or all options, with the
            names of several columns separated by commas.
        """
        rows, skipped = [], 0
        several = None if column is None or isinstance(column, (str, ReadOptions)) else list(column)
        options = ReadOptions.of(several[0] if several else column)  # type: ignore[arg-type]
        columns = several or (options.column or "").split(",")
        first = columns[0] or None
        options = replace(options, column=first)
        for row in read_sentences(corpus, column=options, max_chars=LONGEST, with_columns=True):
            if text := _join(row, columns[1:]):
                rows.append(Record(text, row.place, {first or "text": row.text, **(row.columns or {})}))
            skipped += not text
        return cls(rows, skipped)

    @classmethod
    def read_index(cls, index: RankIndex) -> tuple[Records, np.ndarray]:
        """Return the rows of an index, and the vectors of its different texts."""
        from rankencoder.search.table import vectors_of

        found, seen = cls([]), dict[str, int]()
        vectors = np.empty((len(index), index.about.dimension), np.float32)
        for batch in index.rows.batches(["id", "text", "vector", *index.columns]):
            rows = batch.select(["id", "text", *index.columns]).to_pylist()
            start = len(found.rows)
            found.rows += [Record(row["text"], row["id"], row) for row in rows]
            new = [i for i, row in enumerate(rows) if seen.setdefault(row["text"], start + i) == start + i]
            vectors[len(seen) - len(new) : len(seen)] = vectors_of(batch)[new]
        return found, vectors[: len(seen)]


def _join(row: Sentence, more: Sequence[str]) -> str | None:
    """Return a row's sentence with the text of more columns, or None if it is too long."""
    columns = row.columns or {}
    if row.text is None or not (more and (row.text or columns)):
        return row.text
    if missing := [name for name in more if name not in columns]:
        raise InputError(f"{row.place}: no column {missing[0]!r}; there is {', '.join(columns) or 'none'}")
    text = "\n".join(str(value).strip() for value in (row.text, *map(columns.get, more)) if value)
    return text if len(text) <= LONGEST else None
