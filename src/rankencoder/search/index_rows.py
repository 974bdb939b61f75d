"""Sentences as the rows of an index: ids, text and columns of any simple type."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankencoder.errors import InputError
from rankencoder.io.corpus import Sentence
from rankencoder.io.storage import import_pyarrow

OWN = ("id", "text", "vector")  # columns that every index has
_TAKEN = (*OWN, "query_index")  # the last one is LanceDB's
_FORBIDDEN = ".`*"  # which its queries would take for something else


@dataclass
class Row:
    """A sentence to index.

    :param named: Whether its id was given, and is not the hash of its text.
    :param number: The number of its sentence in the corpus.
    """

    id: str
    text: str
    columns: dict[str, Any]
    named: bool
    place: str
    number: int


def content_id(text: str) -> str:
    """Return the id of a sentence that was given none: the hash of its text."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def make_rows(sentences: Iterable[Sentence], id_column: str | None, counts: dict[str, int]) -> Iterator[Row]:
    """Yield a row for each usable sentence, and count the others.

    :param id_column: The column that holds the ids; by default "id" where there is one.
    """
    for number, sentence in enumerate(sentences):
        if not sentence.text:
            counts["overlong" if sentence.text is None else "empty"] += 1
            continue
        raw = dict(sentence.columns or {})
        given = raw.pop(id_column or "id", None)
        columns = {name: _simple(name, value, sentence.place) for name, value in raw.items()}
        if given is None and id_column is not None:
            raise InputError(f"{sentence.place}: no id in column {id_column!r}")
        if given == "" or not isinstance(given, (str, int, type(None))):
            raise InputError(f"{sentence.place}: an id is a string or a whole number, not {given!r}")
        _check_names(columns, sentence.place)
        identity = content_id(sentence.text) if given is None else str(_simple("id", given, sentence.place))
        yield Row(identity, sentence.text, columns, given is not None, sentence.place, number)


def _simple(name: Any, value: Any, place: str) -> Any:
    """Return a value that a column can hold: lists and objects become JSON text."""
    if not isinstance(name, str):
        raise InputError(f"{place}: the name of a column is text, not {name!r}")
    if isinstance(value, (list, tuple, dict)):
        value = json.dumps(value, ensure_ascii=False, default=str)
    try:
        f"{name}{value if isinstance(value, str) else ''}".encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{place}: column {name!r} holds half a character ({error.reason})") from error
    return value


def _check_names(columns: dict[str, Any], place: str) -> None:
    for name in columns:
        if name in _TAKEN or not name or name.startswith("_") or any(sign in name for sign in _FORBIDDEN):
            raise InputError(
                f"{place}: a column cannot be called {name!r} (not empty, no underscore first, none of "
                f"{' '.join(_FORBIDDEN)}, not {', '.join(_TAKEN)}): rename it"
            )


def check_number(sentences: Iterable[Sentence], vectors: int) -> Iterator[Sentence]:
    """Yield sentences, of which there must be as many as vectors."""
    number = 0
    for number, sentence in enumerate(sentences, start=1):
        if number > vectors:
            raise InputError(f"{sentence.place}: only {vectors} vectors were given")
        yield sentence
    if number != vectors:
        raise InputError(f"{vectors} vectors were given for {number} sentences")


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
    names = dict.fromkeys(name for name in known.names if name not in OWN)
    names.update(dict.fromkeys(name for row in rows for name in row.columns))
    arrays: dict[str, Any] = {}
    for name in names:
        index = known.get_field_index(name)
        array = _array(name, known.field(index).type if index >= 0 else None, rows)
        if index >= 0 or not pa.types.is_null(array.type):
            arrays[name] = array
    return arrays


def _array(name: str, wanted: Any, rows: list[Row]) -> Any:
    made = _cast([row.columns.get(name) for row in rows], wanted)
    if made is not None:
        return made
    kind = wanted
    for row in rows:
        value = row.columns.get(name)
        single = _cast([value], kind)
        if single is None:
            expected = f"{kind}, not" if kind is not None else "numbers of up to 64 bits or text, not"
            raise InputError(
                f"{row.place}: column {name!r} holds {expected} {value!r}: make all its values one type"
            )
        kind = single.type if value is not None and kind is None else kind
    raise InputError(f"column {name!r} holds values of several types: make them one type")


def _cast(values: list[Any], wanted: Any) -> Any:
    """Return values as an array of a type, or None where they do not fit without a change."""
    pa, _ = import_pyarrow()
    try:
        found = pa.array(values)
        if wanted is None:
            return found
        alike = pa.types.is_null(found.type) or _family(found.type) == _family(wanted)
        return found.cast(wanted) if alike else None
    except (pa.ArrowException, OverflowError):
        return None


def _family(kind: Any) -> str:
    """Return what types have in common between which values can be moved; numbers are checked besides."""
    types = import_pyarrow()[0].types
    families = {
        "number": (types.is_integer, types.is_floating),
        "text": (types.is_string, types.is_large_string),
        "bytes": (types.is_binary, types.is_large_binary),
        "time": (types.is_timestamp,),
    }
    return next((name for name, are in families.items() if any(is_(kind) for is_ in are)), str(kind))


def distinct(rows: list[Row]) -> list[Row]:
    """Return the first of rows with the same text, and the last of those with the same id of their own."""
    found: dict[str, Row] = {}
    for row in rows:
        if row.named or row.id not in found:
            found[row.id] = row
    return list(found.values())


def changed(rows: list[Row], known: dict[str, dict[str, Any]], schema: Any) -> list[Row]:
    """Return the rows that are not in the index as they are."""
    named = [row for row in rows if row.named and row.id in known]
    columns = {name: array.to_pylist() for name, array in columns_of(named, schema).items()}
    same = set()
    for number, row in enumerate(named):
        values = {name: column[number] for name, column in columns.items()}
        if _equal(known[row.id], {"id": row.id, "text": row.text, **values}):
            same.add(row.id)
    return [row for row in rows if row.id not in known or (row.named and row.id not in same)]


def _equal(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Compare rows; what is no number equals itself here."""
    return a.keys() == b.keys() and all(
        a[name] == b[name] or (a[name] != a[name] and b[name] != b[name]) for name in a
    )
