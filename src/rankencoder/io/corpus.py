"""Read sentences from files, folders, datasets and iterables, one at a time."""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from rankencoder.errors import InputError
from rankencoder.io.csv_tables import CsvTable, detect_dialect
from rankencoder.io.files import (
    COLUMNAR,
    Place,
    Slice,
    bare_suffix,
    is_address,
    list_files,
    open_file,
    open_parquet,
    read_lines,
)
from rankencoder.io.files import Sentence as Sentence
from rankencoder.io.passages import split_passages
from rankencoder.io.read_options import ReadOptions, choose_column, find, first_values, kept_columns
from rankencoder.progress import Progress

SAMPLE = 10_000  # sentences read to estimate their total number
MAX_CHARS = 2000  # maximum characters of a sentence in a reference corpus
LONGEST = 10_000  # characters of a text to encode; encoders read its first few hundred tokens
LOG = logging.getLogger(__name__)
_LONGEST_ROW = 16 * 2**20  # bytes of a row, or of a document that is split into passages
_Rows = Iterator[tuple[Any, int]]  # values and their line numbers


def read_sentences(
    corpus: Any,
    *,
    column: str | ReadOptions | None = None,
    max_chars: int = MAX_CHARS,
    progress: bool = False,
    with_columns: bool = False,
) -> Iterator[Sentence]:
    """Yield the sentences of a corpus, stripped, with file and line.

    :param corpus: A path to a text (one sentence per line), ``.jsonl``, ``.csv``, ``.tsv``, ``.parquet`` or
        ``.arrow`` file, the first four also as ``.gz``, ``.bz2``, ``.xz`` or ``.zst``; a folder of them, or a
        pattern such as ``tickets-*.csv``; a ``datasets`` dataset; or any iterable of strings or mappings.
        Files and folders may also be addresses for fsspec, such as ``s3://bucket/folder``. Or one `Slice`.
    :param column: The column or key that holds the sentence, or all `ReadOptions`; by default "text",
        "sentence", the only one, or the only one that holds text.
    :param max_chars: A longer sentence is yielded without its text.
    :param progress: Show a progress bar.
    :param with_columns: Also yield the other columns of a row.
    :raises InputError: If a file's content does not match its suffix; with file and line.
    """
    rows: Iterator[Sentence]
    options = ReadOptions.of(column)
    if isinstance(corpus, (str, Path, Slice)):
        parts = [corpus] if isinstance(corpus, Slice) else map(Slice, list_files(corpus))
        rows = chain.from_iterable(_read_file(part, options, max_chars, with_columns) for part in parts)
    elif isinstance(corpus, Mapping) or hasattr(corpus, "columns"):
        names = f"one of {', '.join(map(str, corpus))}" if isinstance(corpus, Mapping) else "a column"
        raise InputError(f"this {type(corpus).__name__} is not one list of sentences: choose {names}")
    elif isinstance(corpus, Iterable):
        source = "dataset" if hasattr(corpus, "column_names") else "the given sentences"
        rows = _sentences(((value, line) for line, value in enumerate(corpus, start=1)), source, options)
    else:
        raise InputError(
            f"cannot read sentences from {type(corpus).__name__}: pass a path or an iterable of strings"
        )
    if progress:
        rows = Progress(estimate_sentences(corpus, options), desc="Reading").over(rows)
    if options.source is not None:
        rows = (row._replace(source=options.source) for row in rows)
    for row in split_passages(rows, options) if options.split else rows:
        text = row.text
        if text is not None:
            text = text.strip()
            check_unicode(text, row.place)
        short = text is None or len(text) <= max_chars
        yield row._replace(text=text if short else None, columns=row.columns if with_columns else None)


def estimate_sentences(corpus: Any, column: Any = None) -> int | None:
    """Estimate the number of sentences in local files from the first `SAMPLE` of each; None if unknown."""
    if not isinstance(corpus, (str, Path)) or is_address(corpus):
        return None
    LOG.disabled = True  # the work itself logs how each file is read, and its errors
    try:
        return sum(_estimate(file, column) for file in list_files(corpus))
    except (InputError, OSError):
        return None
    finally:
        LOG.disabled = False


def _estimate(file: Place, column: Any) -> int:
    if not os.path.isfile(file):
        raise InputError(f"{file} can be read only once")
    rows = list(islice(read_sentences(file, column=column, max_chars=LONGEST), SAMPLE))
    number = sum(bool(row.text) for row in rows)
    if len(rows) < SAMPLE:
        return number
    if bare_suffix(file) in COLUMNAR:
        with open_parquet(file) as opened:
            whole, read = opened.metadata.num_rows, rows[-1].line
    elif Path(file).suffix.lower() == bare_suffix(file):
        with open_file(file) as opened:
            whole, read = os.path.getsize(file), sum(map(len, islice(opened, rows[-1].line)))
    else:
        raise InputError(f"{file} is compressed: its amount of text is unknown")
    return int(float(f"{number * whole / read:.2g}"))


def check_sentences(sentences: str | Iterable[str]) -> list[str]:
    """Return sentences as a list; raise an error for the first that cannot be encoded."""
    checked = [sentences] if isinstance(sentences, str) else list(sentences)
    for i, text in enumerate(checked):
        if not isinstance(text, str):
            raise InputError(f"sentence {i} is not a string but {type(text).__name__}")
        if not text.strip():
            raise InputError(f"sentence {i} is empty: drop it, there is nothing to encode")
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

    :param counts: Its "skipped" is increased for each of the others.
    :param invalid: What to do with empty and over-long sentences: "stop", "skip" or "keep".
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
    """Reject lone surrogates, which tokenizers and files cannot handle."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{place}: not valid Unicode (a lone surrogate, {text[error.start]!r})") from None


def _read_file(part: Slice, options: ReadOptions, max_chars: int, with_columns: bool) -> Iterator[Sentence]:
    path, suffix = part.path, bare_suffix(part.path)
    name = options.source or str(path)
    with_columns = with_columns or options.split is not None  # passages carry their document's id
    if not with_columns:
        options = replace(options, id=None, keep=())
    if suffix == ".json":
        raise InputError(f"{path}: a .json file cannot be streamed: write one object per line, as .jsonl")
    with _growth_noticed(path):
        if suffix in COLUMNAR:
            yield from _read_parquet(part, options, with_columns)
        elif suffix in (".jsonl", ".ndjson"):
            yield from _sentences(_read_jsonl(read_lines(part, _LONGEST_ROW)), name, options)
        elif suffix in (".csv", ".tsv"):
            yield from _read_csv(path, options, with_columns)
        else:
            yield from read_lines(part, _LONGEST_ROW if options.split else 4 * max_chars)


@contextmanager
def _growth_noticed(path: Place) -> Iterator[None]:
    """Warn if a file changes while it is read."""

    def size() -> int:
        return os.path.getsize(path) if not is_address(path) and os.path.isfile(path) else 0

    before = size()
    try:
        yield
    except InputError as error:
        if size() == before:
            raise
        raise InputError(f"{error} (the file changed while it was read: try again)") from error
    if size() != before:
        warnings.warn(
            f"{path} changed while it was read, from {before:,} to {size():,} bytes: run this again to read "
            "the added rows",
            stacklevel=2,
        )


def _read_jsonl(lines: Iterable[Sentence]) -> _Rows:
    for row in lines:
        if row.text is None:
            raise InputError(f"{row.place}: the line is longer than {_LONGEST_ROW // 2**20} MB: split it")
        try:
            yield json.loads(row.text) if row.text.strip() else None, row.line
        except (ValueError, RecursionError) as error:
            raise InputError(f"{row.place}: not JSON ({getattr(error, 'msg', error)})") from error


def _read_csv(path: Place, options: ReadOptions, with_columns: bool) -> Iterator[Sentence]:
    dialect = detect_dialect(path, options)
    if dialect is None:
        return
    table = CsvTable(path, dialect, options, typed=with_columns)
    name = options.source or str(path)
    LOG.info("reading %s: %s, text column %s", name, dialect, table.text)
    rows = table.rows(dialect.names if with_columns else [table.text])
    yield from _sentences(rows, name, options, table.text, table.types if with_columns else None)


def _read_parquet(part: Slice, options: ReadOptions, with_columns: bool) -> Iterator[Sentence]:
    from pyarrow.types import is_large_string, is_string

    path, line = str(part.path), part.before
    with open_parquet(part.path) as file:
        schema = file.schema_arrow
        texts = [field.name for field in schema if is_string(field.type) or is_large_string(field.type)]
        some = next(file.iter_batches(batch_size=64), None)
        examples = first_values(some.to_pylist() if some is not None else [], schema.names)
        chosen = choose_column(examples, texts, options.column, path)
        groups = range(file.num_row_groups)[part.start : part.end]
        columns = None if with_columns else [chosen]
        types = {field.name: field.type for field in schema} if with_columns else None

        def rows() -> _Rows:
            nonlocal line
            for batch in file.iter_batches(batch_size=4096, row_groups=list(groups), columns=columns):
                for row in batch.to_pylist():
                    line += 1
                    yield row, line

        yield from _sentences(rows(), path, options, chosen, types)


def _sentences(
    rows: _Rows,
    source: str,
    options: ReadOptions,
    chosen: str | None = None,
    types: dict[str, Any] | None = None,
) -> Iterator[Sentence]:
    """Yield the sentences of rows and strings, nulls as empty ones; log how many are empty."""
    seen = empty = 0
    known = set[str]()
    for value, line in rows:
        place, columns = f"{source}, line {line}", None
        if isinstance(value, Mapping):
            if chosen is None:
                texts = [name for name, cell in value.items() if isinstance(cell, str)]
                chosen = choose_column(value, texts, options.column, place)
            columns = kept_columns(value, chosen, options, place, known)
            value = find(value, chosen, place, known)
        if value is not None and not isinstance(value, str):
            raise InputError(f"{place}: expected a string, got {type(value).__name__}")
        seen, empty = seen + 1, empty + (not value)
        yield Sentence(value or "", source, line, columns, types)
    if empty and chosen:
        LOG.info("%s: column %s is empty in %s of %s rows", source, chosen, f"{empty:,}", f"{seen:,}")
