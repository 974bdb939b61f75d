"""Turn sentences into rows of an index (ids, text, columns of simple types), and rows into hits."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import repeat
from typing import Any

import numpy as np

from rankencoder.errors import InputError
from rankencoder.io.corpus import Sentence, check_unicode
from rankencoder.io.row_files import fit_array, plain, same
from rankencoder.io.storage import import_pyarrow
from rankencoder.labels.threshold_curve import ThresholdCurve
from rankencoder.search.calibration import Calibration

OWN = ("id", "text", "vector")  # columns that every index has
NUMBER = "_id"  # numeric ids as numbers; "id" holds text
_OTHER_ID = "id_"  # a column "id" that does not hold the ids
_TAKEN = (*OWN, "query_index")  # the last one is LanceDB's
_WATCHED = 2**20  # ids in a dictionary; beyond that, each takes 16 bytes of an array
_SAME_ID = "id {}; the last row of each id is kept"
_SAME_TEXT = "text with other columns {}; the first row is kept: set `id_column` to keep both"
_FORBIDDEN = ".`*"  # special in LanceDB's queries


@dataclass
class Row:
    """A sentence to index.

    :param named: Whether its id was given; otherwise it is the hash of the text.
    :param is_repeated: Whether an earlier sentence has the same text.
    """

    id: str
    text: str
    columns: dict[str, Any]
    named: bool
    place: str
    vector: np.ndarray | None = None
    types: dict[str, Any] | None = None
    is_repeated: bool = False


def content_id(text: str) -> str:
    """Return the id of a sentence without one: the hash of its text."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def watch_documents(sentences: Iterable[Sentence], emptied: dict[Any, None]) -> Iterator[Sentence]:
    """Yield passages, and collect the documents without text, whose earlier passages are to be deleted."""
    for row in sentences:
        document = (row.columns or {}).get("document")
        if row.text == "":
            emptied[document] = None
        else:
            emptied.pop(document, None)
        yield row


def make_rows(
    sentences: Iterable[Sentence],
    id_column: str | None,
    counts: dict[str, int],
    vectors: Iterable[np.ndarray] | None = None,
) -> Iterator[Row]:
    """Yield a row for each usable sentence, and count the others.

    :param id_column: The column of the ids; by default "id", if there is one.
    """
    renamed = 0
    for sentence, vector in zip(sentences, repeat(None) if vectors is None else vectors, strict=False):
        if not sentence.text:
            counts["overlong" if sentence.text is None else "empty"] += 1
            continue
        columns = dict(sentence.columns or {})
        if "id" in columns and id_column not in (None, "id"):
            columns[_OTHER_ID] = columns.pop("id")
            renamed += 1
            if renamed == 1:
                warnings.warn(f"column 'id' becomes {_OTHER_ID!r}: the ids are {id_column!r}", stacklevel=2)
        given = _given_id(columns, id_column, sentence.place)
        for name, value in columns.items():
            _check_name(name, sentence.place)
            if isinstance(value, (list, tuple, dict)):
                columns[name] = json.dumps(value, ensure_ascii=False, default=str)
        if type(given) is int and abs(given) < 2**63:
            columns[NUMBER] = given
        identity = content_id(sentence.text) if given is None else str(given)
        check_unicode(identity, sentence.place)
        yield Row(identity, sentence.text, columns, given is not None, sentence.place, vector, sentence.types)


def _given_id(columns: dict[str, Any], id_column: str | None, place: str) -> str | int | None:
    """Return the id of a row, without its column "id"."""
    given = columns.pop("id", None) if id_column in (None, "id") else columns.get(id_column)
    if given is None and id_column is not None:
        raise InputError(f"{place}: no id in column {id_column!r}")
    if given == "" or isinstance(given, bool) or not isinstance(given, (str, int, type(None))):
        raise InputError(f"{place}: an id is a string or a whole number, not {given!r}")
    return given


def _check_name(name: Any, place: str) -> None:
    if not isinstance(name, str):
        raise InputError(f"{place}: a column's name must be a string, not {name!r}")
    check_unicode(name, place)
    if name in _TAKEN or not name or name.startswith("_") or any(sign in name for sign in _FORBIDDEN):
        raise InputError(
            f"{place}: an index cannot have a column {name!r} (empty, with a leading underscore, with one of "
            f"{' '.join(_FORBIDDEN)}, or one of {', '.join(_TAKEN)}): rename it, or set `keep`"
        )


def check_vectors(vectors: np.ndarray, dimension: int) -> np.ndarray:
    """Return vectors after checking that they are unit vectors of an index's dimension."""
    if vectors.ndim != 2 or vectors.shape[1] != dimension:
        raise InputError(f"expected vectors of {dimension} dimensions, got an array of shape {vectors.shape}")
    if not np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3):
        raise InputError("not all vectors are unit vectors: take them from the index's model")
    return vectors.astype(np.float32, copy=False)


def columns_of(rows: list[Row], known: Any) -> dict[str, Any]:
    """Return the columns of rows as Arrow arrays, with the types of a known schema if it has them.

    A column without any value is left out unless it is known.
    """
    pa, _ = import_pyarrow()
    kinds = {field.name: field.type for field in known if field.name not in OWN}
    names = dict.fromkeys([*kinds, *(name for row in rows for name in row.columns)])
    arrays = {name: _array(name, kinds.get(name), rows) for name in names}
    return {name: array for name, array in arrays.items() if not pa.types.is_null(array.type)}


def _array(name: str, kind: Any, rows: list[Row]) -> Any:
    values = [row.columns.get(name) for row in rows]
    own = [found for row in rows if (found := (row.types or {}).get(name)) is not None]
    if kind is None and own:  # a new column has the file's type, if an index can have it
        kind = getattr(own[0], "value_type", own[0]) if fit_array(values, own[0]) is not None else None
    if (fitting := fit_array(values, kind)) is not None:
        return fitting
    for row, value in zip(rows, values, strict=True):
        single = fit_array([value], kind)
        if single is None:
            raise InputError(
                f"{row.place}: column {name!r} holds {kind or 'numbers of up to 64 bits or text'}, not "
                f"{value!r}: make all its values one type"
            )
        if kind is None and value is not None:
            kind = single.type
    return import_pyarrow()[0].array(values, kind)


def distinct(rows: list[Row]) -> list[Row]:
    """Return the first of rows with the same text, and the last of rows with the same given id."""
    found: dict[str, Row] = {}
    for row in (row for row in rows if not row.is_repeated):
        if row.named or row.id not in found:
            found[row.id] = row
    return list(found.values())


def changed(rows: list[Row], known: dict[str, dict[str, Any]]) -> list[Row]:
    """Return the rows that are new or differ from those of the index."""

    def is_known(row: Row) -> bool:
        return same({"id": row.id, "text": row.text, **row.columns}, known[row.id])

    return [row for row in rows if row.id not in known or (row.named and not is_known(row))]


class RowWatch:
    """Marks rows without id that repeat a text, and counts repeated ids."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}  # hashes of ids, and of the columns of a text's first row
        self._earlier = np.empty((2, 0), dtype=np.int64)  # the same as a sorted array
        self._counts = {_SAME_ID: 0, _SAME_TEXT: 0}
        self._first: dict[str, str] = {}

    def over(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield rows, then warn."""
        yield from map(self.mark, rows)
        self.warn()

    def mark(self, row: Row) -> Row:
        """Return a row, marked if it has no id and repeats a text."""
        columns = 0 if row.named else hash(repr(sorted(row.columns.items())))
        key = hash(row.id)
        keys, found = self._earlier
        at = int(np.searchsorted(keys, key))
        first = int(found[at]) if at < len(keys) and keys[at] == key else self._seen.get(key)
        if first is None:
            self._seen[key] = columns
            if len(self._seen) == _WATCHED:  # move them to the array
                new = np.array([[*self._seen], [*self._seen.values()]], dtype=np.int64)
                both = np.concatenate([self._earlier, new], axis=1)
                self._earlier = both[:, np.argsort(both[0])]
                self._seen.clear()
            return row
        row.is_repeated = not row.named
        if row.named or first != columns:
            kind = _SAME_ID if row.named else _SAME_TEXT
            self._counts[kind] += 1
            self._first.setdefault(kind, f"{row.id!r}, {row.place}" if row.named else row.place)
        return row

    def warn(self) -> None:
        """Warn about rows that replace others and rows that are left out."""
        for kind, first in self._first.items():
            number = self._counts[kind]
            rows = f"{number:,} rows repeat" if number > 1 else "1 row repeats"
            warnings.warn(f"{rows} an earlier {kind.format(f'(first: {first})')}", stacklevel=4)


@dataclass(frozen=True)
class Hit:
    """A sentence found by a search.

    :param id: The id as it was given, a string or a whole number.
    :param score: Its similarity to the query; of a RankEncoder, that of Eq. 7.
    :param percentile: The percentage of random pairs below the score; None without a calibration.
    :param probability: P(same), that it means the same as the query; None without labels (see `threshold`).
    """

    id: str | int
    text: str
    score: float
    percentile: float | None
    columns: dict[str, Any] = field(default_factory=dict)
    probability: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON (see `plain`)."""
        return {**asdict(self), "columns": plain(self.columns)}

    def to_row(self, query: str) -> dict[str, Any]:
        """Return the hit as a row of a table, where its own column "score" becomes "score_"."""
        row: dict[str, Any] = {"query": query, "id": self.id, "text": self.text, "score": self.score}
        row["percentile"] = self.percentile
        row |= {} if self.probability is None else {"probability": self.probability}
        for name, value in self.columns.items():
            free = name
            while free in row or (free != name and free in self.columns):
                free += "_"
            row[free] = value
        return row

    @classmethod
    def of_row(
        cls, row: dict[str, Any], calibration: Calibration | None, curve: ThresholdCurve | None = None
    ) -> Hit:
        """Make a hit of a row that `LanceRows.search` found."""
        columns = dict(row)
        score = 1 - columns.pop("_distance")
        percentile = float(calibration.percentile(score)) if calibration else None
        probability = None if curve is None else float(curve.p_same(score))
        text, number = columns.pop("id"), columns.pop(NUMBER, None)
        name = text if number is None else number
        return cls(name, columns.pop("text"), score, percentile, columns, probability)
