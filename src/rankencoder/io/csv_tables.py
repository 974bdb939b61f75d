"""CSV files, read by pyarrow block by block. Delimiter, quoting, header and types are detected."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, count, islice
from typing import Any, NamedTuple

from rankencoder.errors import InputError
from rankencoder.io.files import Place, Slice, bare_suffix, open_file, read_lines
from rankencoder.io.read_options import TEXT_COLUMNS, ReadOptions, choose_column, first_values
from rankencoder.io.storage import import_pyarrow

_DELIMITERS = (",", ";", "\t", "|")
_SAMPLE = 2**16  # bytes to detect a file's dialect from
_BLOCK = 2**20  # bytes to read at a time, and the longest row
_NULLS = ("", "NA", "N/A", "n/a", "NULL", "null", "NaN", "nan", "None")  # in columns that do not hold text
_NAME = re.compile(r"[\w #%€$&./:()-]{0,40}")
_DAY, _TIME = r"\d{4}-\d{2}-\d{2}", r"\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?"
# ids such as 00123, and numbers that a float cannot hold, stay text
_KINDS = {
    "int64": r"-?(0|[1-9]\d{0,17})",
    "double": r"-?(0|[1-9]\d{0,14})(\.\d+)?([eE][-+]?\d{1,3})?",
    "bool": "true|false|True|False|TRUE|FALSE",
    "date32": _DAY,
    "timestamp[us]": rf"{_DAY}[ T]{_TIME}",
    "timestamp[us, tz=UTC]": rf"{_DAY}[ T]{_TIME}(Z|[+-]\d{{2}}:?\d{{2}})",
}
_VALUE = re.compile("|".join(f"({pattern})" for pattern in _KINDS.values()))


class Dialect(NamedTuple):
    """The format of a CSV file, and its first rows."""

    delimiter: str
    quoted: bool
    header: bool
    names: list[str]
    rows: list[list[str]]
    is_whole: bool  # whether the first rows are all rows

    def __str__(self) -> str:
        sign = "tab" if self.delimiter == "\t" else repr(self.delimiter)
        return f"{sign}, {'header' if self.header else 'no header'}, {len(self.names)} columns"


def detect_dialect(place: Place, options: ReadOptions) -> Dialect | None:
    """Return the format of a CSV file, or None if it is empty."""
    size, rows = _SAMPLE, list[list[str]]()
    given = {"tab": "\t", "\\t": "\t"}.get(options.delimiter or "", options.delimiter)
    if given is not None and (len(given) != 1 or given in '"\r\n' or not given.isascii()):
        raise InputError(f"`delimiter` is one character, or tab, not {given!r}")
    while not rows:
        with open_file(place) as file:
            raw = file.read(size)
        if b"\0" in raw:
            _check_text(place)
        whole, sample = len(raw) < size, raw.decode("utf-8-sig", errors="replace")
        delimiter = given or ("\t" if bare_suffix(place) == ".tsv" else _delimiter(sample, whole))
        quoted = delimiter != "\t" or _has_quotes(sample, whole)
        rows = _records(sample, whole, delimiter, quoted)
        if not rows and (whole or size >= _BLOCK):
            return None
        size *= 8
    header = _has_header(rows, options.column) if options.header is None else options.header
    names = [f"column_{i}" for i in range(1, len(rows[0]) + 1)]
    if header:
        names = [cell.strip() or name for cell, name in zip(rows[0], names, strict=True)]
        names = _unique(names)
    return Dialect(delimiter, quoted, header, names, rows, whole)


def _unique(names: list[str]) -> list[str]:
    """Number repeated names."""
    found = dict[str, None]()
    for name in names:
        free = (f"{name}_{number}" for number in count(2) if f"{name}_{number}" not in {*names, *found})
        found[next(free) if name in found else name] = None
    return list(found)


def _reader(lines: Any, delimiter: str, quoted: bool, *, strict: bool = False) -> Any:
    quoting: Any = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    csv.field_size_limit(max(csv.field_size_limit(), _BLOCK))
    return csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=strict)


def _records(sample: str, whole: bool, *dialect: Any, strict: bool = False) -> list[list[str]]:
    rows = list(_reader(io.StringIO(sample, newline=""), *dialect, strict=strict))
    return [row for row in (rows if whole else rows[:-1]) if row]


def _delimiter(sample: str, whole: bool) -> str:
    """Return the delimiter that gives all rows equally many cells, or else the first row the most cells."""
    widths = {sign: [len(row) for row in _records(sample, whole, sign, True)] or [0] for sign in _DELIMITERS}
    even = [sign for sign, found in widths.items() if found[0] > 1 and len({*found}) == 1]
    return max(even or _DELIMITERS, key=lambda sign: widths[sign][0])


def _has_quotes(sample: str, whole: bool) -> bool:
    """Return whether cells between tabs are quoted; with stray quotes, quoting would merge lines."""
    try:
        rows = _records(sample, whole, "\t", True, strict=True)
    except csv.Error:
        return False
    return '""' in sample or len(rows) < len(_records(sample, whole, "\t", False))


def _has_header(rows: list[list[str]], column: str | None) -> bool:
    """Return whether the first row looks like names: short, no values, and not among the rows below."""
    first = [cell.strip() for cell in rows[0]]
    if {*first} & {*TEXT_COLUMNS, column}:
        return True
    below = [{row[i].strip() for row in rows[1:] if i < len(row)} - {""} for i in range(len(first))]
    cells = [(cell, found) for cell, found in zip(first, below, strict=True) if cell]
    if any(_VALUE.fullmatch(cell) or cell in found for cell, found in cells):
        return False
    if len(first) == 1:  # only text: names are shorter than sentences
        lengths = sorted(len(text.split()) for text in below[0])
        return bool(lengths) and len(first[0].split()) < min(3, lengths[len(lengths) // 2])
    has_values = any(found and all(map(_VALUE.fullmatch, found)) for _, found in cells)
    return bool(cells) and all(
        _NAME.fullmatch(cell) and len(cell.split()) < 5 and (has_values or not cell.endswith("."))
        for cell, _ in cells
    )


def _check_text(place: Place) -> None:
    """Raise an error for the first line that is not UTF-8."""
    for _ in read_lines(Slice(place), _BLOCK):
        pass


class CsvTable:
    """A CSV file, its text column and the types of the others.

    :param typed: Whether to detect types, which reads the whole file once; otherwise every column is text.
    """

    def __init__(self, place: Place, dialect: Dialect, options: ReadOptions, *, typed: bool) -> None:
        column, identity = options.column, options.id or "id"
        self.place, self.dialect, self.string = place, dialect, import_pyarrow()[0].string()
        self.types = dict.fromkeys(dialect.names, self.string)
        named = column or next((name for name in TEXT_COLUMNS if name in dialect.names), None)
        if typed or (named is None and len(dialect.names) > 1):
            self.types |= self._find_types({*dialect.names} - {named})
        rows = (dict(zip(dialect.names, row, strict=False)) for row in dialect.rows[dialect.header :])
        texts = [name for name, kind in self.types.items() if kind == self.string]
        self.text = choose_column(first_values(rows, dialect.names), texts, column, str(place))
        self.types[self.text] = self.string
        if identity in self.types and self.types[identity] != _type("int64"):  # an id is one, or text
            self.types[identity] = self.string

    def _find_types(self, names: set[str]) -> dict[str, Any]:
        """Return the type of each column whose values all share a type other than text."""
        pa, _ = import_pyarrow()
        import pyarrow.compute as pc

        kinds, filled = {name: list(_KINDS) for name in names}, set()
        for batch in self._batches(dict.fromkeys(self.dialect.names, self.string)):
            for name, left in kinds.items():
                values = batch[name].filter(pc.invert(pc.is_in(batch[name], pa.array(_NULLS))))
                if len(values):
                    filled.add(name)
                    left[:] = [kind for kind in left if _fits(values, kind)]
        return {name: _type(left[0]) for name, left in kinds.items() if left and name in filled}

    def rows(self, names: list[str]) -> Iterator[tuple[dict[str, Any], int]]:
        """Yield some columns of each row, with empty text as null, and the row's last line."""
        import pyarrow.compute as pc

        texts = [name for name, kind in self.types.items() if kind == self.string]
        line = sum(cell.count("\n") for cell in self.dialect.rows[0]) + 1 if self.dialect.header else 0
        for batch in self._batches(self.types):
            breaks = [pc.count_substring(batch[name], "\n").to_pylist() for name in texts]
            filled = {name: pc.if_else(pc.equal(batch[name], ""), None, batch[name]) for name in texts}
            cells = zip(*(filled.get(name, batch[name]).to_pylist() for name in names), strict=True)
            for row, *more in zip(cells, *breaks, strict=True):
                line += 1 + sum(more)
                yield dict(zip(names, row, strict=True)), line

    def _batches(self, types: dict[str, Any]) -> Iterator[Any]:
        pa, _ = import_pyarrow()
        from pyarrow import csv as arrow

        dialect, refused = self.dialect, list[Any]()
        if dialect.header and dialect.is_whole and len(dialect.rows) == 1:
            self._check_quotes(dialect.rows[0])
            return
        last: Any = None

        def refuse(row: Any) -> str:
            refused.append(row)
            return "error"

        reading = arrow.ReadOptions(
            block_size=_BLOCK,
            use_threads=False,
            column_names=dialect.names,
            skip_rows_after_names=int(dialect.header),
        )
        parsing = arrow.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char='"' if dialect.quoted else False,
            newlines_in_values=dialect.quoted,
            ignore_empty_lines=False,
            invalid_row_handler=refuse,
        )
        converting = arrow.ConvertOptions(column_types=types, null_values=list(_NULLS))
        with open_file(self.place) as file:
            try:
                with arrow.open_csv(file, reading, parsing, converting) as reader:
                    for batch in reader:
                        last = batch if len(batch) else last
                        yield batch
            except pa.ArrowInvalid as error:
                self._check_quotes(["\n"])
                raise InputError(self._explain(error, refused)) from error
        if last is not None:
            self._check_quotes(last.slice(len(last) - 1).to_pylist()[0].values())

    def _check_quotes(self, row: Iterable[Any]) -> None:
        """Raise an error for a quote that is never closed: a cell of the last row holds all later lines."""
        if not self.dialect.quoted or not any("\n" in str(cell) for cell in row):
            return
        found, start, end = [""], 0, 0
        with suppress(csv.Error):
            for cells, line in self._numbered_rows(["\n", "x"]):
                found, start, end = cells, end, line
        if found[-1].endswith("\nx"):
            start += 1 + sum(cell.count("\n") for cell in found[:-1])
            raise InputError(f"{self.place}: the quote that begins in line {start} is never closed")

    def _explain(self, error: Exception, refused: list[Any]) -> str:
        if refused:
            first, width = "header" if self.dialect.header else "first row", len(self.dialect.names)
            line = next(islice(self._numbered_rows(), refused[0].number - 1, None), ([], 0))[1]
            found = refused[0].actual_columns
            return f"{self.place}, line {line}: {found} columns, but the {first} has {width}"
        if "straddl" in str(error):
            return (
                f"{self.place}: a row is longer than 1 MB; is the quoting right? Write long texts as .jsonl"
            )
        _check_text(self.place)
        return f"{self.place}: {error}"

    def _numbered_rows(self, more: Iterable[str] = ()) -> Iterator[tuple[list[str], int]]:
        """Yield the cells of each row and its last line; `more` lines follow the file."""
        with open_file(self.place) as file:
            lines = io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="")
            reader = _reader(chain(lines, more), self.dialect.delimiter, self.dialect.quoted)
            for cells in reader:
                yield cells, reader.line_num


def _type(kind: str) -> Any:
    pa, _ = import_pyarrow()
    return pa.timestamp("us", "UTC") if "UTC" in kind else pa.type_for_alias(kind)


def _fits(values: Any, kind: str) -> bool:
    pa, _ = import_pyarrow()
    import pyarrow.compute as pc

    if not pc.all(pc.match_substring_regex(values, f"^({_KINDS[kind]})$")).as_py():
        return False
    try:
        values.cast(_type(kind))
    except pa.ArrowInvalid:  # such as the 30th of February
        return False
    return True
