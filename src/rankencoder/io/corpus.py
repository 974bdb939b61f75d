"""Sentences out of files, folders, data sets and iterables, one at a time and never all in memory."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from rankencoder.errors import InputError
from rankencoder.io.files import TABLES, Place, Slice, bare_suffix, list_files, open_parquet, read_lines
from rankencoder.io.files import Sentence as Sentence

MAX_CHARS = 2000  # of a sentence that a reference corpus takes in
LONGEST = 10_000  # characters of a text that is encoded at all; encoders read its first few hundred tokens
_LONGEST_ROW = 16 * 2**20  # bytes of a table's row: its other columns may be long
_COLUMNS = ("text", "sentence")


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
        dataset; or any iterable of strings or mappings. Files and folders may also be
        fsspec's addresses, such as ``s3://bucket/folder``.
    :param column: The column or key that holds the sentence; by default "text", "sentence" or the only one.
    :param max_chars: A longer sentence is yielded without its text.
    :param progress: Show a progress bar.
    :param with_columns: Also yield what else a row holds.
    :raises InputError: If a file cannot be read as what its name says; with file and line.
    """
    rows: Iterator[Sentence]
    if isinstance(corpus, (str, Path)):
        files = list_files(corpus)
        rows = chain.from_iterable(_read_file(Slice(f), column, max_chars, with_columns) for f in files)
    elif isinstance(corpus, Mapping) or hasattr(corpus, "columns"):
        names = ", ".join(map(str, corpus)) if isinstance(corpus, Mapping) else "a column"
        raise InputError(
            f"this {type(corpus).__name__} is not one list of sentences: choose from it ({names})"
        )
    elif isinstance(corpus, Iterable):
        source = "dataset" if hasattr(corpus, "column_names") else "the given sentences"
        rows = (_sentence(value, column, source, line) for line, value in enumerate(corpus, start=1))
    else:
        raise InputError(
            f"cannot read sentences from {type(corpus).__name__}: give a path or an iterable of strings"
        )
    if progress:
        from tqdm.auto import tqdm

        rows = iter(tqdm(rows, desc="Reading", unit=" sentences", unit_scale=True))
    yield from _finished(rows, max_chars, with_columns)


def read_slice(
    part: Slice, *, column: str | None = None, max_chars: int = MAX_CHARS, with_columns: bool = False
) -> Iterator[Sentence]:
    """Yield the sentences of one slice of a file, just as `read_sentences` would yield them."""
    return _finished(_read_file(part, column, max_chars, with_columns), max_chars, with_columns)


def _finished(rows: Iterable[Sentence], max_chars: int, with_columns: bool) -> Iterator[Sentence]:
    """Strip and check sentences."""
    for text, source, line, columns in rows:
        if text is not None:
            text = text.strip()
            check_unicode(text, f"{source}, line {line}")
        short = text is None or len(text) <= max_chars
        yield Sentence(text if short else None, source, line, columns if with_columns else None)


def check_sentences(sentences: str | Iterable[str]) -> list[str]:
    """Return sentences as a list, or say which of them no encoder can make sense of."""
    checked = [sentences] if isinstance(sentences, str) else list(sentences)
    for i, text in enumerate(checked):
        if not isinstance(text, str):
            raise InputError(f"sentence {i} is not a string but {type(text).__name__}")
        if not text.strip():
            raise InputError(f"sentence {i} is empty: drop it, an empty sentence has no meaning to encode")
        if len(text) > LONGEST:
            raise InputError(
                f"sentence {i} has {len(text):,} characters, more than {LONGEST:,}: split it into sentences"
            )
        check_unicode(text, f"sentence {i}")
    return checked


def usable_sentences(
    rows: Iterable[Sentence], counts: dict[str, int], invalid: str = "stop"
) -> Iterator[Sentence]:
    """Yield the sentences that can be encoded.

    :param counts: Where those that are not are counted, as "skipped".
    :param invalid: What is done with empty and over-long sentences: "stop", "skip" or "keep".
    """
    for row in rows:
        if row.text or invalid == "keep":
            yield row
        elif invalid == "skip":
            counts["skipped"] += 1
        else:
            what = "empty" if row.text is not None else f"longer than {LONGEST:,} characters"
            raise InputError(f"{row.place}: the sentence is {what}; set `skip_invalid` to skip such lines")


def digest_line(digest: Any, text: str) -> None:
    """Add a sentence to the digest of a corpus: its text and a newline."""
    digest.update(text.encode() + b"\n")


def check_unicode(text: str, place: str) -> None:
    """Refuse lone surrogates, which neither tokenizers nor files can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{place}: not valid Unicode (a lone surrogate, {text[error.start]!r})") from None


def _read_file(part: Slice, column: str | None, max_chars: int, with_columns: bool) -> Iterator[Sentence]:
    path = part.path
    suffix = bare_suffix(path)
    if suffix == ".parquet":
        yield from _read_parquet(part, column, with_columns)
        return
    if suffix == ".json":
        raise InputError(f"{path}: a .json file is not read line by line; write one object a line, as .jsonl")
    lines = read_lines(part, _LONGEST_ROW if suffix in TABLES else 4 * max_chars)
    if suffix in (".jsonl", ".ndjson"):
        yield from _read_jsonl(lines, column)
    elif suffix in TABLES:
        yield from _read_table(lines, path, column, "\t" if suffix == ".tsv" else ",")
    else:
        yield from lines


def _read_jsonl(lines: Iterable[Sentence], column: str | None) -> Iterator[Sentence]:
    for row in lines:
        if row.text is None or not row.text.strip():
            yield row
            continue
        try:
            value = json.loads(row.text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{row.place}: not JSON ({error})") from error
        yield _sentence(value, column, row.source, row.line)


def _read_table(
    lines: Iterable[Sentence], path: Place, column: str | None, delimiter: str
) -> Iterator[Sentence]:
    held = 0  # of a row, which goes on in the next line while a quoted cell does

    def text() -> Iterator[str]:
        nonlocal held
        for row in lines:
            held += _LONGEST_ROW + 1 if row.text is None else len(row.text)
            if row.text is None or held > _LONGEST_ROW:
                raise InputError(f"{row.place}: a row this long is no table row; is the quoting right?")
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
        held = 0
        for cells in reader:
            held = 0
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


def _read_parquet(part: Slice, column: str | None, with_columns: bool) -> Iterator[Sentence]:
    path, line = str(part.path), part.before
    with open_parquet(part.path) as file:
        chosen = _choose_column(file.schema_arrow.names, column, path)
        groups = range(file.num_row_groups)[part.start : part.end]
        columns = None if with_columns else [chosen]
        for batch in file.iter_batches(batch_size=4096, row_groups=list(groups), columns=columns):
            for row in batch.to_pylist():
                line += 1
                yield _sentence(row, chosen, path, line)


def _sentence(value: Any, column: str | None, source: str, line: int) -> Sentence:
    """Return the sentence of a row or a string, or an empty one of a null."""
    columns = None
    if isinstance(value, Mapping):
        columns = dict(value)
        value = columns.pop(_choose_column(list(columns), column, f"{source}, line {line}"))
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
