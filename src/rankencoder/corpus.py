"""Sentences out of files, folders, data sets and iterables, one at a time and never all in memory."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import lzma
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

from rankencoder.errors import InputError
from rankencoder.storage import import_pyarrow

MAX_CHARS = 2000
"""Longest sentence that a reference corpus takes in, in characters."""

LONGEST = 10_000
"""Longest text that is encoded at all, in characters; encoders read only its first few hundred tokens."""

_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_SUFFIXES = (".txt", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
_LONGEST_ROW = 16 * 2**20  # bytes of a table's row: its other columns may be long
_COLUMNS = ("text", "sentence")


class Sentence(NamedTuple):
    """A sentence and where it came from. ``text`` is None where a line is too long to be one.

    ``columns`` is what else its row holds, where that was asked for.
    """

    text: str | None
    source: str
    line: int
    columns: dict[str, Any] | None = None

    @property
    def place(self) -> str:
        """Return "file, line 3"."""
        return f"{self.source}, line {self.line}"


def read_sentences(
    corpus: Any,
    *,
    column: str | None = None,
    max_chars: int = MAX_CHARS,
    progress: bool = False,
    with_columns: bool = False,
) -> Iterator[Sentence]:
    """Yield the sentences of a corpus, stripped, with file and line.

    :param corpus: A path to a text file (one sentence a line), ``.jsonl``, ``.csv``, ``.tsv`` or ``.parquet``
        file, the text ones also as ``.gz``, ``.bz2`` or ``.xz``; a folder of such files; a ``datasets``
        dataset; or any iterable of strings (with columns: or of mappings).
    :param column: The column or key that holds the sentence; by default "text", "sentence" or the only one.
    :param max_chars: A longer sentence is yielded without its text.
    :param progress: Show a progress bar.
    :param with_columns: Also yield what else a row holds.
    :raises InputError: If a file cannot be read as what its name says; with file and line.
    """
    rows: Iterator[Sentence]
    if isinstance(corpus, (str, Path)):
        files = _files(Path(corpus))
        rows = chain.from_iterable(_read_file(path, column, max_chars, with_columns) for path in files)
    elif isinstance(corpus, Mapping) or hasattr(corpus, "columns"):
        names = ", ".join(map(str, corpus)) if isinstance(corpus, Mapping) else "a column"
        raise InputError(
            f"this {type(corpus).__name__} is not one list of sentences: choose from it ({names})"
        )
    elif hasattr(corpus, "column_names"):
        rows = _read_dataset(corpus, column)
    elif isinstance(corpus, Iterable):
        rows = _read_iterable(corpus, column, with_columns)
    else:
        raise InputError(
            f"cannot read sentences from {type(corpus).__name__}: give a path or an iterable of strings"
        )
    if progress:
        from tqdm.auto import tqdm

        rows = iter(tqdm(rows, desc="Reading", unit=" sentences", unit_scale=True))
    for text, source, line, columns in rows:
        if text is not None:
            text = text.strip()
            check_unicode(text, f"{source}, line {line}")
        short = text is None or len(text) <= max_chars
        yield Sentence(text if short else None, source, line, columns if with_columns else None)


def check_sentences(sentences: str | Iterable[str]) -> list[str]:
    """Return sentences as a list, or say which of them no encoder can make sense of.

    :raises InputError: If one is not a string, empty, far too long for a sentence, or not valid Unicode.
    """
    checked = [sentences] if isinstance(sentences, str) else list(sentences)
    for i, text in enumerate(checked):
        if not isinstance(text, str):
            raise InputError(f"sentence {i} is not a string but {type(text).__name__}")
        if not text.strip():
            raise InputError(
                f"sentence {i} is empty: leave it out, an empty sentence has no meaning to encode"
            )
        if len(text) > LONGEST:
            raise InputError(
                f"sentence {i} has {len(text):,} characters, more than {LONGEST:,}: split it into sentences"
            )
        check_unicode(text, f"sentence {i}")
    return checked


def check_unicode(text: str, place: str) -> None:
    """Refuse lone surrogates, which neither tokenizers nor files can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{place}: not valid Unicode (a lone surrogate, {text[error.start]!r})") from None


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise InputError(f"no such file or folder: {path}")
    if not path.is_dir():
        return [path]
    files = sorted(f for f in path.rglob("*") if f.is_file() and bare_suffix(f) in _SUFFIXES)
    if not files:
        raise InputError(f"{path} holds no file to read sentences from (looked for {', '.join(_SUFFIXES)})")
    return files


def bare_suffix(path: Path) -> str:
    """Return the suffix that tells a file's format, in lower case, that of its compression aside."""
    name = path.with_suffix("") if path.suffix in _OPENERS else path
    return name.suffix.lower()


def _read_file(path: Path, column: str | None, max_chars: int, with_columns: bool) -> Iterator[Sentence]:
    suffix = bare_suffix(path)
    if suffix == ".parquet":
        yield from _read_parquet(path, column, with_columns)
        return
    table = suffix in (".jsonl", ".ndjson", ".csv", ".tsv")
    lines = read_lines(path, _LONGEST_ROW if table else 4 * max_chars)
    if suffix == ".json":
        raise InputError(f"{path}: a .json file is not read line by line; write one object a line, as .jsonl")
    if suffix in (".jsonl", ".ndjson"):
        yield from _read_jsonl(lines, column)
    elif table:
        yield from _read_table(lines, path, column, "\t" if suffix == ".tsv" else ",")
    else:
        yield from lines


def read_lines(path: Path, longest: int) -> Iterator[Sentence]:
    """Yield the lines of a UTF-8 file, plain or compressed, split strictly at newlines.

    :param longest: A line of more bytes is yielded without its text, and never held in memory.
    :raises InputError: If the file is not UTF-8 text or not whole; with file and line.
    """
    try:
        with _OPENERS.get(path.suffix, open)(path, "rb") as file:
            yield from _lines(file, path, longest)
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is not a whole {path.suffix} file: {error}") from error


def _lines(file: IO[bytes], path: Path, longest: int) -> Iterator[Sentence]:
    line = 0
    while raw := file.readline(longest + 2):
        line += 1
        if len(raw) > longest and not raw.endswith(b"\n"):
            while (rest := file.readline(2**20)) and not rest.endswith(b"\n"):
                pass
            yield Sentence(None, str(path), line)
            continue
        if line == 1:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        if b"\0" in raw:
            raise InputError(f"{path}, line {line}: holds a NUL byte, so this is not a UTF-8 text file")
        try:
            yield Sentence(raw.decode("utf-8"), str(path), line)
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path}, line {line}: not UTF-8 (byte {raw[error.start]:#04x} at column {error.start + 1}); "
                "convert the file, e.g. with iconv -f latin1 -t utf-8"
            ) from error


def _read_jsonl(lines: Iterable[Sentence], column: str | None) -> Iterator[Sentence]:
    for row in lines:
        if row.text is None or not row.text.strip():
            yield row
            continue
        try:
            value = json.loads(row.text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{row.place}: not JSON ({error})") from error
        if isinstance(value, dict):
            yield _of_row(value, column, row.source, row.line)
        else:
            yield _checked(value, row.source, row.line)


def _read_table(
    lines: Iterable[Sentence], path: Path, column: str | None, delimiter: str
) -> Iterator[Sentence]:
    def text() -> Iterator[str]:
        for row in lines:
            if row.text is None:
                raise InputError(f"{row.place}: a line this long is no table row; is the quoting right?")
            yield row.text

    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_ROW))
    # a .tsv is split at tabs only: stray quotes would merge its lines
    plain = delimiter == "\t"
    reader = csv.reader(text(), delimiter=delimiter, quoting=csv.QUOTE_NONE if plain else csv.QUOTE_MINIMAL)
    try:
        header = next(reader, None)
        if header is None:
            return
        chosen = _choose_column(header, column, str(path))
        places = {name: header.index(name) for name in header}  # of equal names the first
        for cells in reader:
            if not cells:  # a blank line
                yield Sentence("", str(path), reader.line_num)
                continue
            if len(cells) != len(header):
                raise InputError(
                    f"{path}, line {reader.line_num}: {len(cells)} columns, but the header has {len(header)}"
                )
            columns = {name: cells[place] for name, place in places.items()}
            yield Sentence(columns.pop(chosen), str(path), reader.line_num, columns)
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}") from error


def _read_parquet(path: Path, column: str | None, with_columns: bool) -> Iterator[Sentence]:
    pa, pq = import_pyarrow()
    line = 0
    try:
        with pq.ParquetFile(path) as file:
            chosen = _choose_column(file.schema_arrow.names, column, str(path))
            for batch in file.iter_batches(batch_size=4096, columns=None if with_columns else [chosen]):
                for row in batch.to_pylist():
                    line += 1
                    yield _of_row(row, chosen, str(path), line)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, near line {line + 1}: not UTF-8; write the file anew") from error
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} is not a readable Parquet file: {error}") from error


def _read_dataset(dataset: Any, column: str | None) -> Iterator[Sentence]:
    for line, row in enumerate(dataset, start=1):
        yield _of_row(row, column, "dataset", line)


def _read_iterable(values: Iterable[Any], column: str | None, with_columns: bool) -> Iterator[Sentence]:
    source = "the given sentences"
    for line, value in enumerate(values, start=1):
        if with_columns and isinstance(value, Mapping):
            yield _of_row(value, column, source, line)
        else:
            yield _checked(value, source, line)


def _of_row(row: Mapping[str, Any], column: str | None, source: str, line: int) -> Sentence:
    columns = dict(row)
    text = columns.pop(_choose_column(list(columns), column, f"{source}, line {line}"))
    return _checked(text, source, line, columns)


def _checked(value: Any, source: str, line: int, columns: dict[str, Any] | None = None) -> Sentence:
    """Return a sentence of a string, or an empty one of a null."""
    if value is not None and not isinstance(value, str):
        raise InputError(f"{source}, line {line}: expected a string, got {type(value).__name__}")
    return Sentence(value or "", source, line, columns)


def _choose_column(names: list[str], column: str | None, place: str) -> str:
    if column is not None:
        if column not in names:
            raise InputError(f"{place}: no column {column!r}; there is {', '.join(names)}")
        return column
    if len(names) == 1:
        return names[0]
    for name in _COLUMNS:
        if name in names:
            return name
    raise InputError(f"{place}: which column holds the sentences? Choose one of {', '.join(names)}")
