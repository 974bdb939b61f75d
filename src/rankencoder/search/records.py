"""The rows of a corpus or index, with the text of each to compare, and the pairs to label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rankencoder.errors import InputError
from rankencoder.io.corpus import LONGEST, Sentence, read_sentences
from rankencoder.io.passages import PASSAGE
from rankencoder.io.read_options import ReadOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rankencoder.backends.opening import Opening
    from rankencoder.encoders import Encoder
    from rankencoder.labels.pair_pool import PairPool
    from rankencoder.model import RankEncoder
    from rankencoder.search.rank_index import RankIndex


class Record(NamedTuple):
    """A row: its text, its place ("file, line 3", or its id), and all columns."""

    text: str
    place: str
    columns: dict[str, Any]


@dataclass
class Records:
    """The usable rows of a corpus.

    :param skipped: The number of empty and over-long rows, which are left out.
    """

    rows: list[Record]
    skipped: int = 0

    @cached_property
    def has_passages(self) -> bool:
        """Whether the rows are passages of documents."""
        return any({*PASSAGE} <= row.columns.keys() for row in self.rows)

    @cached_property
    def units(self) -> list[list[Record]]:
        """The rows of each distinct text; each passage is a separate unit."""
        if self.has_passages:
            return [[row] for row in self.rows]
        units: dict[str, list[Record]] = {}
        for row in self.rows:
            units.setdefault(row.text, []).append(row)
        return list(units.values())

    @cached_property
    def texts(self) -> list[str]:
        """The text of each unit."""
        return [rows[0].text for rows in self.units]

    @cached_property
    def documents(self) -> np.ndarray:
        """The number of each text's document; a text without one is a document itself."""
        known: dict[Any, int] = {}
        keys: list[Any] = [(None, i) for i in range(len(self.units))]
        if self.has_passages:
            found = (rows[0].columns.get("document") for rows in self.units)
            keys = [key if name is None else name for key, name in zip(keys, found, strict=True)]
        return np.array([known.setdefault(key, len(known)) for key in keys])

    def entry(self, number: int) -> dict[str, Any]:
        """Return a text and its places, and the document and position of a passage."""
        rows = self.units[number]
        of = {name: rows[0].columns.get(name) for name in PASSAGE[1:3]} if self.has_passages else {}
        return {"text": rows[0].text, "places": [row.place for row in rows], **of}

    @classmethod
    def read(cls, corpus: Any, column: str | Sequence[str] | ReadOptions | None = None) -> Records:
        """Read the rows of a corpus for `read_sentences`.

        :param column: One or more columns, joined by line breaks; or all options, with commas between the
            names of columns.
        """
        rows, skipped = [], 0
        options = ReadOptions.of(column)
        name, *more = (options.column or "").split(",")
        options = replace(options, column=name or None)
        for row in read_sentences(corpus, column=options, max_chars=LONGEST, with_columns=True):
            if text := _join(row, more):
                own = row.columns or {}
                place = own["id"] if options.split else row.place
                rows.append(Record(text, place, {name or "text": row.text, **own}))
            skipped += not text
        return cls(rows, skipped)

    @classmethod
    def read_index(cls, index: RankIndex) -> tuple[Records, np.ndarray]:
        """Return the rows of an index and the vectors of its units."""
        from rankencoder.search.index_rows import NUMBER
        from rankencoder.search.table import vectors_of

        rows, vectors = list[Record](), np.empty((len(index), index.about.dimension), np.float32)
        numbered = NUMBER in index.rows.columns
        for batch in index.rows.batches(["id", "text", "vector", *index.rows.columns]):
            found = batch.drop_columns(["vector"]).to_pylist()
            vectors[len(rows) : len(rows) + len(found)] = vectors_of(batch)
            for row in found:
                place, number = row["id"], row.pop(NUMBER) if numbered else None
                rows.append(Record(row["text"], place, row if number is None else {**row, "id": number}))
        records, numbers = cls(rows), {id(row): number for number, row in enumerate(rows)}
        return records, vectors[[numbers[id(unit[0])] for unit in records.units]]


def _join(row: Sentence, more: Sequence[str]) -> str | None:
    """Return a row's text joined with more columns, or None if that is too long."""
    columns = row.columns or {}
    if row.text is None or not (more and (row.text or columns)):
        return row.text
    if missing := [name for name in more if name not in columns]:
        raise InputError(f"{row.place}: no column {missing[0]!r}; choose from {', '.join(columns) or 'none'}")
    text = "\n".join(str(value).strip() for value in (row.text, *map(columns.get, more)) if value)
    return text if len(text) <= LONGEST else None


def draw_pool(
    model: Any,
    corpus: Any,
    *,
    name: str | None = None,
    column: str | ReadOptions | None = None,
    seed: int = 0,
    progress: bool = False,
    **opening: Unpack[Opening],
) -> PairPool:
    """Draw pairs of near sentences to label (see `PairPool`).

    :param model: A model for `rankencoder.model.open_model`.
    :param corpus: A corpus for `rankencoder.io.corpus.read_sentences`, an index of the model, or its folder.
    :param name: A name for the model.
    :param opening: How to run a model that is loaded by name, as for `open_model`.
    """
    from rankencoder.labels.pair_pool import PairPool  # late: this needs torch, and saved records do not
    from rankencoder.search.rank_index import RankIndex
    from rankencoder.text_fit import with_tokenizer

    source = open_source(model, corpus, **opening)
    if isinstance(source, RankIndex):
        texts, vectors = _distinct_texts(source)
    else:
        texts = Records.read(corpus, with_tokenizer(column, source)).texts
        vectors = source.encode(texts, progress=progress) if texts else np.zeros((0, 1), np.float32)
    own = source.about.name if isinstance(source, RankIndex) else source.name
    name = name or (str(model) if isinstance(model, (str, Path)) else own)
    return PairPool.of_vectors(texts, vectors, seed=seed, model=source.identity(), name=name)


def open_source(model: Any, corpus: Any, **opening: Unpack[Opening]) -> RankIndex | RankEncoder | Encoder:
    """Open what has the vectors of a corpus: its index, or else the model.

    Parameters are those of `draw_pool`. The model of an index is loaded only if it may have changed.
    """
    from rankencoder.model import open_model
    from rankencoder.search.index_folder import CONFIG
    from rankencoder.search.rank_index import RankIndex

    if isinstance(corpus, (str, Path)) and (Path(corpus) / CONFIG).exists():
        corpus = RankIndex.load(corpus, model, **opening)
    return corpus if isinstance(corpus, RankIndex) else open_model(model, **opening)


def _distinct_texts(index: RankIndex) -> tuple[list[str], np.ndarray]:
    """Return the different texts of an index, and their vectors."""
    from rankencoder.search.table import vectors_of

    texts, vectors = list[str](), [np.zeros((0, index.about.dimension), np.float32)]
    for batch in index.rows.batches(["text", "vector"], 65_536):
        texts += batch["text"].to_pylist()
        vectors.append(vectors_of(batch))
    first = {text: row for row, text in reversed([*enumerate(texts)])}
    rows = sorted(first.values())
    return [texts[row] for row in rows], np.concatenate(vectors)[rows]
