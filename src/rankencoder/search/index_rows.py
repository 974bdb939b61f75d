"""Sentences as the rows of an index: ids, text and columns of any simple type."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np

from rankencoder.errors import InputError
from rankencoder.io.corpus import Sentence, check_unicode
from rankencoder.io.row_files import fit_array, same
from rankencoder.io.storage import import_pyarrow

OWN = ("id", "text", "vector")  # columns that every index has
NUMBER = "_id"  # ids that are numbers, as numbers: "id" holds text
_OTHER_ID = "id_"  # a column "id" where another holds the ids
_TAKEN = (*OWN, "query_index")  # the last one is LanceDB's
_WATCHED = 2**20  # ids that are held as a dictionary; beyond, each takes 16 bytes
_SAME_ID = "id {}; the last row of each id is kept"
_SAME_TEXT = "text with other columns {}; the first row is kept: set `id_column` to keep both"
_FORBIDDEN = ".`*"  # they have a meaning in LanceDB's queries


@dataclass
class Row:
    """A sentence to index.

    :param named: Whether its id was given, and is not the hash of its text.
    :param is_repeated: Whether another sentence with this text came before it.
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
    """Return the id of a sentence that was given none: the hash of its text."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def make_rows(
    sentences: Iterable[Sentence],
    id_column: str | None,
    counts: dict[str, int],
    vectors: Iterable[np.ndarray] | None = None,
) -> Iterator[Row]:
    """Yield a row for each usable sentence, and count the others.

    :param id_column: The column that holds the ids; by default "id" where there is one.
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
    """Return the id of a row; a column "id" is no other column then."""
    given = columns.pop("id", None) if id_column in (None, "id") else columns.get(id_column)
    if given is None and id_column is not None:
        raise InputError(f"{place}: no id in column {id_column!r}")
    if given == "" or isinstance(given, bool) or not isinstance(given, (str, int, type(None))):
        raise InputError(f"{place}: an id is a string or a whole number, not {given!r}")
    return given


def _check_name(name: Any, place: str) -> None:
    if not isinstance(name, str):
        raise InputError(f"{place}: the name of a column is text, not {name!r}")
    check_unicode(name, place)
    if name in _TAKEN or not name or name.startswith("_") or any(sign in name for sign in _FORBIDDEN):
        raise InputError(
            f"{place}: a column cannot be called {name!r} (not empty, no underscore first, none of "
            f"{' '.join(_FORBIDDEN)}, not {', '.join(_TAKEN)}): rename it, or set `keep`"
        )


def check_vectors(vectors: np.ndarray, dimension: int) -> np.ndarray:
    """Return vectors if they are unit vectors of an index's dimension."""
    if vectors.ndim != 2 or vectors.shape[1] != dimension:
        raise InputError(f"expected vectors of {dimension} dimensions, got an array of shape {vectors.shape}")
    if not np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3):
        raise InputError("not all vectors are unit vectors: take them from the index's model")
    return vectors.astype(np.float32, copy=False)


def columns_of(rows: list[Row], known: Any) -> dict[str, Any]:
    """Return the columns of rows as Arrow arrays, in the types of a known schema where it has them.

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
    if kind is None and own:  # of a column that is new: the file's, as far as an index has it
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
    """Return the first of rows with the same text, and the last of those with the same id of their own."""
    found: dict[str, Row] = {}
    for row in (row for row in rows if not row.is_repeated):
        if row.named or row.id not in found:
            found[row.id] = row
    return list(found.values())


def changed(rows: list[Row], known: dict[str, dict[str, Any]]) -> list[Row]:
    """Return the rows that are not in the index as they are."""
    return [row for row in rows if row.id not in known or (row.named and not _is_as(row, known[row.id]))]


def _is_as(row: Row, known: dict[str, Any]) -> bool:
    own = {"id": row.id, "text": row.text, **row.columns}
    return all(same(own.get(name), known.get(name)) for name in own.keys() | known.keys())


class RowWatch:
    """Marks rows without id whose text came before, and counts repeated ids."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}  # hashes of ids, and of the columns that a text first came with
        self._earlier = np.empty((2, 0), dtype=np.int64)  # the same as a sorted array
        self._counts = {_SAME_ID: 0, _SAME_TEXT: 0}
        self._first: dict[str, str] = {}

    def over(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield rows, then warn."""
        yield from map(self.mark, rows)
        self.warn()

    def mark(self, row: Row) -> Row:
        """Return a row, marked if it has no id and its text came before."""
        columns = 0 if row.named else hash(repr(sorted(row.columns.items())))
        key = hash(row.id)
        first = self._seen.get(key, self._find(key))
        if first is None:
            self._seen[key] = columns
            if len(self._seen) == _WATCHED:
                self._pack()
            return row
        row.is_repeated = not row.named
        if row.named or first != columns:
            kind = _SAME_ID if row.named else _SAME_TEXT
            self._counts[kind] += 1
            self._first.setdefault(kind, f"{row.id!r}, {row.place}" if row.named else row.place)
        return row

    def _find(self, key: int) -> int | None:
        keys, columns = self._earlier
        at = int(np.searchsorted(keys, key))
        return int(columns[at]) if at < len(keys) and keys[at] == key else None

    def _pack(self) -> None:
        """Move what is known from the dictionary to the array."""
        new = np.array([[*self._seen], [*self._seen.values()]], dtype=np.int64)
        both = np.concatenate([self._earlier, new], axis=1)
        self._earlier = both[:, np.argsort(both[0])]
        self._seen.clear()

    def warn(self) -> None:
        """Say which rows replace others, and which are left out."""
        for kind, first in self._first.items():
            number = self._counts[kind]
            rows = f"{number:,} rows repeat" if number > 1 else "1 row repeats"
            warnings.warn(f"{rows} an earlier {kind.format(f'(first: {first})')}", stacklevel=4)
