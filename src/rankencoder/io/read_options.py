"""Options for reading a corpus: the text column, columns to keep, CSV format, splitting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rankencoder.errors import InputError, shorten

TEXT_COLUMNS = ("text", "sentence")
_SHOWN = 20  # columns in an error


@dataclass(frozen=True)
class ReadOptions:
    """How to read a corpus. Every function with a ``column`` takes these options in its place.

    :param column: The column or key of the sentences; ``ticket.body`` is a nested key. By default "text",
        "sentence", the only column, or the only one that holds text.
    :param id: The column of the ids.
    :param keep: The columns to keep; None for all of them.
    :param delimiter: The delimiter of a CSV file; None to detect it, like ``header``.
    :param header: Whether the first row of a CSV file names its columns.
    :param split: Split long texts: "sentences", "sentences:de" for another language than English,
        "128-tokens", or a function from a text to its passages.
    :param source: A name for the corpus, in place of its files' names.
    """

    column: str | None = None
    id: str | None = None
    keep: tuple[str, ...] | None = None
    delimiter: str | None = None
    header: bool | None = None
    split: str | Callable[[str], list[str]] | None = None
    source: str | None = None

    @classmethod
    def of(cls, column: str | Sequence[str] | ReadOptions | None, id: str | None = None) -> ReadOptions:
        """Return options as they are, or the options of a column's name; with this id, if given."""
        if not isinstance(column, ReadOptions):
            column = cls(column if column is None or isinstance(column, str) else ",".join(column))
        return replace(column, id=id or column.id)

    @property
    def id_name(self) -> str:
        """The name of the id column in the output."""
        return (self.id or "id").replace(".", "_")

    def key(self) -> dict[str, Any] | str | None:
        """Return the options as JSON, to check whether unfinished work can be resumed."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        return self.column if given.keys() <= {"column"} else {name: str(given[name]) for name in given}


DEFAULTS = ReadOptions()


def find(row: Mapping[str, Any], name: str, place: str, known: set[str] | None = None) -> Any:
    """Return the value of a column or nested key.

    :param known: The columns of earlier rows, which this row may lack.
    """
    value: Any = row
    for key in [name] if name in row else name.split("."):
        if not isinstance(value, Mapping) or key not in value:
            if known and name in known:
                return None
            raise InputError(f"{place}: no column {name!r}; choose from {', '.join(map(str, row))}")
        value = value[key]
    if known is not None:
        known.add(name)
    return value


def kept_columns(
    row: Mapping[str, Any], text: str, options: ReadOptions, place: str, known: set[str]
) -> dict[str, Any]:
    """Return the columns to keep besides the text; ``ticket.id`` becomes ``ticket_id``."""
    columns = dict(row) if options.keep is None else {}
    if options.id is None and "id" in row:
        columns["id"] = row["id"]
    for name in (*filter(None, [options.id]), *(options.keep or ())):
        columns[name.replace(".", "_")] = find(row, name, place, known)
    columns.pop(text, None)
    return columns


def choose_column(examples: Mapping[str, Any], texts: list[str], column: str | None, place: str) -> str:
    """Return the name of the text column.

    :param examples: A value of each column, or None.
    :param texts: The columns that hold text.
    """
    if column is not None:
        find(examples, column, place)
        return column
    if len(examples) == 1:
        return next(iter(examples))
    for name in TEXT_COLUMNS:
        if name in examples:
            return name
    if len(texts) == 1:
        return texts[0]
    if not texts:
        raise InputError(f"{place}: no column holds text, among {_listed(examples)}")
    found = _listed({name: examples[name] for name in texts})
    raise InputError(f"{place}: which column holds the sentences? Set `column` to one of {found}")


def _listed(examples: Mapping[str, Any]) -> str:
    shown = [
        str(name) if value is None else f"{name} (e.g. {shorten(' '.join(str(value).split()), 30)!r})"
        for name, value in list(examples.items())[:_SHOWN]
    ]
    return ", ".join(shown) + (f" and {len(examples) - _SHOWN} more" if len(examples) > _SHOWN else "")


def first_values(rows: Iterable[Mapping[str, Any]], names: Iterable[str]) -> dict[str, Any]:
    """Return the first value of each column that is neither null nor empty."""
    found: dict[str, Any] = dict.fromkeys(names)
    for row in rows:
        for name, value in row.items():
            if found.get(name) in (None, ""):
                found[name] = value
    return found
