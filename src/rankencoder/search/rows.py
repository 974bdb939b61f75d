"""Sentences as the rows of an index: ids, text and columns of any simple type."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rankencoder.corpus import Sentence
from rankencoder.errors import InputError
from rankencoder.storage import import_pyarrow

OWN = ("id", "text", "vector")
"""Columns that every index has."""


@dataclass
class Row:
    """A sentence to index.

    :param named: Whether its id was given, and is not the hash of its text.
    """

    id: str
    text: str
    columns: dict[str, Any]
    named: bool
    place: str


def content_id(text: str) -> str:
    """Return the id of a sentence that was given none: the hash of its text."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def make_rows(sentences: Iterable[Sentence], id_column: str | None, counts: dict[str, int]) -> Iterator[Row]:
    """Yield a row for each usable sentence, and count the others.

    :param id_column: The column that holds the ids; by default "id" where there is one.
    :raises InputError: If a row has no id although a column was named, or a column has a name that cannot be.
    """
    for sentence in sentences:
        if not sentence.text:
            counts["overlong" if sentence.text is None else "empty"] += 1
            continue
        columns = dict(sentence.columns or {})
        given = columns.pop(id_column or "id", None)
        if given is None and id_column is not None:
            raise InputError(f"{sentence.place}: no id in column {id_column!r}")
        if given is not None and not isinstance(given, (str, int)):
            raise InputError(f"{sentence.place}: an id is a string or a whole number, not {given!r}")
        if given == "":
            raise InputError(f"{sentence.place}: the id is empty")
        _check_names(columns, sentence.place)
        identity = content_id(sentence.text) if given is None else str(given)
        yield Row(identity, sentence.text, columns, given is not None, sentence.place)


def _check_names(columns: dict[str, Any], place: str) -> None:
    for name in columns:
        if not isinstance(name, str) or name in OWN or not name or name.startswith("_") or "." in name:
            raise InputError(
                f"{place}: a column cannot be called {name!r} (not empty, no dot, no underscore first, not "
                f"{', '.join(OWN)}): rename it"
            )


def columns_of(rows: list[Row], known: Any) -> Any:
    """Return the columns of rows as an Arrow table, in the types of a known schema where it has them.

    A column without any value is left out unless it is known. Lists and objects become JSON text.

    :param known: An Arrow schema.
    :raises InputError: If a column holds values of different types; says where.
    """
    pa, _ = import_pyarrow()
    names = {name: None for name in known.names if name not in OWN}
    names.update((name, None) for row in rows for name in row.columns)
    arrays: dict[str, Any] = {}
    for name in names:
        values = [_simple(row.columns.get(name)) for row in rows]
        index = known.get_field_index(name)
        array = _array(name, values, known.field(index).type if index >= 0 else None, rows)
        if index >= 0 or not pa.types.is_null(array.type):
            arrays[name] = array
    return pa.table(arrays) if arrays else pa.table({"id": [row.id for row in rows]}).select([])


def _simple(value: Any) -> Any:
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value, ensure_ascii=False, default=str)
    return value


def _array(name: str, values: list[Any], wanted: Any, rows: list[Row]) -> Any:
    pa, _ = import_pyarrow()
    try:
        found = pa.array(values)
        if wanted is None or pa.types.is_null(found.type) or found.type == wanted:
            return found.cast(wanted) if wanted is not None else found
        return found.cast(wanted)
    except (pa.ArrowException, OverflowError) as error:
        kind = wanted or pa.array([next(value for value in values if value is not None)]).type
        for value, row in zip(values, rows, strict=True):
            if value is not None and not _fits(value, kind):
                raise InputError(
                    f"{row.place}: column {name!r} holds {kind}, not {value!r}: make all its values one type"
                ) from error
        raise InputError(f"column {name!r} holds {kind}, and other values: make them one type") from error


def _fits(value: Any, kind: Any) -> bool:
    pa, _ = import_pyarrow()
    try:
        return bool(pa.array([value]).type == kind)
    except (pa.ArrowException, OverflowError):
        return False


def changed(rows: list[Row], known: dict[str, dict[str, Any]], schema: Any) -> list[Row]:
    """Return the rows that are not in the index as they are."""
    named = [row for row in rows if row.named and row.id in known]
    same = set()
    if named:
        columns = columns_of(named, schema)
        if not set(columns.schema.names) - set(schema.names):
            for row, values in zip(named, columns.to_pylist() or [{}] * len(named), strict=True):
                if known[row.id] == {"id": row.id, "text": row.text, **values}:
                    same.add(row.id)
    return [row for row in rows if row.id not in known or (row.named and row.id not in same)]
