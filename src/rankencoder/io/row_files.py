"""Write rows of any columns as Parquet, JSONL or CSV."""

from __future__ import annotations

import base64
import json
import math
import warnings
from pathlib import Path
from typing import Any

from rankencoder.errors import InputError
from rankencoder.io.files import Sentence
from rankencoder.io.storage import check_free, import_pyarrow, new_file

ROW_FORMATS = (".parquet", ".jsonl", ".csv")


def write_rows(path: Path, rows: list[dict[str, Any]], *, overwrite: bool = False) -> None:
    """Write rows to a ``.parquet``, ``.jsonl`` or ``.csv`` file, atomically.

    :param rows: Dictionaries; missing keys are null. In JSONL, dates are ISO strings, bytes base64 and NaN
        null; in CSV, lists and dictionaries are JSON. A column of several types is written as text, with a
        warning.
    :raises InputError: If the file exists or has another suffix.
    """
    check_row_file(path, overwrite=overwrite)
    with new_file(path) as temporary:
        if path.suffix.lower() == ".jsonl":
            with open(temporary, "w", encoding="utf-8") as file:
                file.writelines(to_json(row) + "\n" for row in rows)
            return
        names = list(dict.fromkeys(name for row in rows for name in row))
        pa, pq = import_pyarrow()
        table = pa.table({name: to_array(name, [row.get(name) for row in rows]) for name in names})
        if path.suffix.lower() == ".parquet":
            pq.write_table(table, temporary)
        else:
            from pyarrow.csv import write_csv

            write_csv(as_cells(table), temporary)


def check_row_file(path: Path, *, overwrite: bool = False) -> None:
    """Check that `write_rows` can write a file, before the work that makes its rows."""
    if path.suffix.lower() not in ROW_FORMATS:
        raise InputError(f"cannot write {path}: use {', '.join(ROW_FORMATS[:-1])} or {ROW_FORMATS[-1]}")
    check_free(path, overwrite=overwrite)


def to_json(value: Any) -> str:
    """Return a value as one line of JSON, converted by `plain` where necessary."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=plain)
    except ValueError:  # NaN or infinity
        return json.dumps(plain(value), ensure_ascii=False)


def plain(value: Any) -> Any:
    """Return a value that JSON can hold: dates as ISO strings, bytes as base64, NaN and infinity as None."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def as_cells(table: Any) -> Any:
    """Return a table that CSV can hold: lists and dictionaries as JSON, bytes as base64."""
    from pyarrow import types

    for i, field in enumerate(table.schema):
        if types.is_nested(field.type) or types.is_binary(field.type):
            table = table.set_column(i, field.name, as_text(table[i].to_pylist()))
    return table


def to_array(name: str, values: list[Any], kind: Any = None) -> Any:
    """Return the values of a column as an Arrow array, or as text if their types differ."""
    if (array := fit_array(values, kind)) is not None:
        return array
    warnings.warn(f"column {name!r} holds values of several types: it is written as text", stacklevel=3)
    return as_text(values)


def fit_array(values: list[Any], kind: Any = None) -> Any:
    """Return values as an Arrow array, or None if that would change one of them."""
    pa, _ = import_pyarrow()
    try:
        array = pa.array(values, kind)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return None
    return array if all(map(same, values, array.to_pylist())) else None


def same(a: Any, b: Any) -> bool:
    """Compare two values. Here NaN equals NaN, and a missing key null."""
    if isinstance(a, dict) and isinstance(b, dict):
        return all(same(a.get(name), b.get(name)) for name in a.keys() | b.keys())
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b or (a != a and b != b))


def as_text(values: list[Any]) -> Any:
    """Return values as an Arrow array of strings; other values become JSON."""
    text = [
        value if value is None or isinstance(value, str) else to_json(value) for value in map(plain, values)
    ]
    return import_pyarrow()[0].array(text, "string")


def carried_arrays(rows: list[Sentence]) -> dict[str, Any]:
    """Return the columns of sentences as Arrow arrays, with the types of their files."""
    names = dict.fromkeys(name for row in rows for name in row.columns or ())
    found = {}
    for name in names:
        kinds = {kind for row in rows if (kind := (row.types or {}).get(name)) is not None}
        values = [(row.columns or {}).get(name) for row in rows]
        found[name] = to_array(name, values, kinds.pop() if len(kinds) == 1 else None)
    return found
