"""Filters on the columns of an index, in a small JSON form that becomes SQL.

| form                                   | keeps the rows where                        |
|----------------------------------------|---------------------------------------------|
| ``{"lang": "en"}``                     | the column equals the value                 |
| ``{"lang": null}``                     | the column has no value                     |
| ``{"lang": ["en", "de"]}``             | it equals one of them                       |
| ``{"year": {"gte": 1990, "lt": 2000}}``| it lies in the range: gt, gte, lt, lte      |
| ``{"module": {"prefix": "os."}}``      | its text starts with this                   |
| ``{"lang": {"not": "en"}}``            | it does not equal the value, or one of them |

A filter with several conditions keeps the rows that meet all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import date, datetime, timezone
from math import isfinite
from typing import Any

from rankencoder.errors import InputError, nearest, shorten
from rankencoder.io.storage import import_pyarrow

_FRACTION = re.compile(r"-?\d+\.\d+")
_COMPARISONS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_SIGNS = {**{sign: name for name, sign in _COMPARISONS.items()}, "!=": "not"}
_TYPED = re.compile(r"\s*([^<>=!]*[^<>=!\s])\s*(<=|>=|!=|==|<|>|=)\s*(.*?)\s*", re.S)
_EXAMPLE = '{"year": {"gte": 2020}}'


def parse_filter(texts: Iterable[str]) -> dict[str, Any]:
    """Parse filters and join them.

    :param texts: JSON objects, or comparisons such as ``lang=en`` and ``year >= 2020``.

    >>> parse_filter(["lang=en", "year >= 2020", '{"year": {"lt": 2030}}'])
    {'lang': 'en', 'year': {'gte': 2020, 'lt': 2030}}
    """
    joined: dict[str, Any] = {}
    for text in texts:
        for name, wanted in _parse(text).items():
            known = joined.get(name, {})
            if name in joined and not (
                isinstance(known, dict) and isinstance(wanted, dict) and not known.keys() & wanted.keys()
            ):
                raise InputError(f"two filters on column {name!r}: write them as one, such as {_EXAMPLE}")
            joined[name] = {**known, **wanted} if name in joined else wanted
    return joined


def _parse(text: str) -> dict[str, Any]:
    if not text.lstrip().startswith("{"):
        found = _TYPED.fullmatch(text)
        if not found:
            raise InputError(
                f"cannot filter by {text!r}: write column=value, column>value, or JSON such as {_EXAMPLE}"
            )
        name, sign, value = found.groups()
        if sign in ("=", "=="):
            return {name: value}
        return {name: {_SIGNS[sign]: value if sign == "!=" else _number(value)}}
    try:
        return dict(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise InputError(f"cannot filter by {shorten(text)!r}: not JSON ({error})") from error


def _number(text: str) -> Any:
    """Return a number if the text is one: strings compare letter by letter."""
    with suppress(ValueError):
        return float(text) if not text.lstrip("-").isdigit() else int(text)
    return text


def to_sql(where: Mapping[str, Any], schema: Any) -> str:
    """Return a filter as an SQL condition, with names and values quoted.

    Text is converted to the type of its column, so that ``{"year": "2020"}`` works and dates can be written
    as ``"2020-12-31"``.

    :param where: Conditions by column (see the module).
    :param schema: The Arrow schema of the columns.

    >>> import pyarrow as pa
    >>> schema = pa.schema({"year": pa.int64(), "lang": pa.string()})
    >>> to_sql({"year": {"gte": 1990, "lt": 2000}, "lang": "it's"}, schema)
    "`year` >= 1990 AND `year` < 2000 AND `lang` = 'it''s'"
    """
    if not isinstance(where, Mapping) or not where:
        raise InputError(f"cannot filter by {where!r}: a filter is an object such as {_EXAMPLE}")
    conditions = []
    for name, wanted in where.items():
        if name not in schema.names:
            known = nearest(str(name), schema.names)
            raise InputError(f"cannot filter by {name!r}: the index has no such column;{known}")
        conditions += _Column(name, schema.field(name).type).conditions(wanted)
    return " AND ".join(conditions)


class _Column:
    """The column of a condition, with its Arrow type."""

    def __init__(self, name: str, kind: Any) -> None:
        types = import_pyarrow()[0].types
        self.name, self.kind = name, kind
        self.quoted = f"`{name}`"
        self.accepted: tuple[type, ...] = ()  # Python types of values
        self.described = f"{kind}, which can only be compared with null"
        if types.is_string(kind) or types.is_large_string(kind):
            self.accepted, self.described = (str,), "text"
        elif types.is_boolean(kind):
            self.accepted, self.described = (bool, str), "true or false"
        elif types.is_integer(kind) or types.is_floating(kind):
            self.accepted, self.described = (int, float, str), f"numbers ({kind})"
        elif types.is_date(kind) or types.is_timestamp(kind):
            self.accepted = (date, str)
            time = "" if types.is_date(kind) else "T23:59:59Z" if kind.tz else "T23:59:59"
            self.described = f"times ({kind}), such as '2020-12-31{time}'"

    def conditions(self, wanted: Any) -> list[str]:
        if not isinstance(wanted, Mapping):
            return [self.equals(wanted)]
        if not wanted:
            raise InputError(f"cannot filter by {self.name!r}: {{}} has no condition, such as {_EXAMPLE}")
        return [self.condition(operator, value) for operator, value in wanted.items()]

    def condition(self, operator: str, value: Any) -> str:
        if operator in _COMPARISONS:
            return f"{self.quoted} {_COMPARISONS[operator]} {self.literal(value)}"
        if operator == "prefix":
            if self.accepted != (str,):
                raise InputError(f"cannot filter by a prefix of {self.name!r}, which holds {self.described}")
            return f"starts_with({self.quoted}, {self.literal(value)})"
        if operator == "not":
            missing = "" if _has_none(value) else f"{self.quoted} IS NULL OR "
            return f"({missing}NOT {self.equals(value)})"
        known = nearest(str(operator), (*_COMPARISONS, "prefix", "not"))
        raise InputError(f"cannot filter by {self.name!r}: no operator {operator!r};{known}")

    def equals(self, value: Any) -> str:
        if value is None:
            return f"{self.quoted} IS NULL"
        if not isinstance(value, (list, tuple)):
            return f"{self.quoted} = {self.literal(value)}"
        given = [self.literal(one) for one in value if one is not None]
        found = f"{self.quoted} IN ({', '.join(given)})" if given else "FALSE"
        return f"({self.quoted} IS NULL OR {found})" if _has_none(value) else found

    def literal(self, value: Any) -> str:
        """Return a value as an SQL literal of the column's type."""
        pa, _ = import_pyarrow()
        misfit = InputError(f"cannot filter by {value!r}: column {self.name!r} holds {self.described}")
        if pa.types.is_integer(self.kind) and _FRACTION.fullmatch(str(value)):
            misfit = InputError(f"column {self.name!r} holds whole numbers; {value} is not one")
        if not isinstance(value, self.accepted) or (isinstance(value, bool) and bool not in self.accepted):
            raise misfit
        try:
            made = pa.scalar(value).cast(self.kind).as_py()
        except (ValueError, OverflowError, pa.ArrowException) as error:
            raise misfit from error
        if isinstance(made, str):
            return quote(made)
        if isinstance(made, datetime):
            made = made.astimezone(timezone.utc).replace(tzinfo=None) if made.tzinfo else made
            return f"TIMESTAMP '{made.isoformat()}'"
        if isinstance(made, date):
            return f"DATE '{made.isoformat()}'"
        if isinstance(made, float) and not isfinite(made):
            raise misfit
        return str(made).upper()


def _has_none(value: Any) -> bool:
    return value is None or (isinstance(value, (list, tuple)) and None in value)


def quote(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"
