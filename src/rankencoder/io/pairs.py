"""Pairs of sentences out of files."""

from __future__ import annotations

import csv
import json
import math
import reprlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rankencoder.errors import InputError
from rankencoder.io.corpus import LONGEST, bare_suffix, check_sentences, read_lines

_KEYS = ("sentence1", "sentence2")
_SCORED_KEYS = ("score", *_KEYS)
_Row = tuple[list[Any], str]  # cells and place


class Pair(NamedTuple):
    """Two sentences."""

    a: str
    b: str


class ScoredPair(NamedTuple):
    """Two sentences and how similar people find them."""

    a: str
    b: str
    score: float


def read_pairs(path: str | Path) -> Iterator[Pair]:
    """Yield the pairs of a ``.jsonl`` file (keys "sentence1", "sentence2") or of two tab-separated columns.

    Blank lines are passed over.

    :raises InputError: If a line is no pair of sentences; with file and line.
    """
    path = Path(path)
    for text, place in _lines(path):
        if not text.strip():
            continue
        with told_at(place):
            if path.suffix == ".jsonl":
                a, b = check_sentences(_json_values(text, _KEYS))
            else:
                a, b = check_sentences(_two_columns(text))
        yield Pair(a, b)


def read_scored_pairs(path: str | Path) -> list[ScoredPair]:
    """Return the pairs of a file with their gold scores, such as those of STS.

    A ``.jsonl`` file has the keys "score", "sentence1" and "sentence2"; a ``.csv`` file, or any other of
    tab-separated columns, has these columns in this order or a header that names them. Blank lines are passed
    over.

    :param path: The file, plain or as ``.gz``, ``.bz2`` or ``.xz``.
    :raises InputError: If a line is no scored pair, with file and line; or if no rank correlation can be had
        with the scores, for want of different ones.
    """
    path = Path(path)
    suffix = bare_suffix(path)
    if suffix in (".jsonl", ".ndjson"):
        rows = _json_rows(path)
    else:
        rows = _choose_columns(_csv_rows(path) if suffix == ".csv" else _tab_rows(path))
    pairs = []
    for cells, place in rows:
        with told_at(place):
            pairs.append(_scored_pair(*cells))
    if len(pairs) < 2:
        raise InputError(f"{path}: {len(pairs)} pair(s), but a rank correlation needs at least two")
    if len({pair.score for pair in pairs}) == 1:
        raise InputError(f"{path}: all scores are {pairs[0].score:g}, so nothing can correlate with them")
    return pairs


@contextmanager
def told_at(place: str) -> Iterator[None]:
    """Let an error say where it was."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from error


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each line and its place."""
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    for row in read_lines(path, 8 * LONGEST):
        if row.text is None:
            raise InputError(f"{row.place}: the line is far too long for two sentences")
        yield row.text, row.place


def _two_columns(text: str) -> list[str]:
    cells = text.rstrip("\r\n").split("\t")
    if len(cells) != 2:
        raise InputError(f"expected two sentences separated by a tab, got {len(cells)} column(s)")
    return cells


def _json_values(text: str, keys: tuple[str, ...]) -> list[Any]:
    try:
        value = json.loads(text)
        return [value[key] for key in keys]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"expected a JSON object with {' and '.join(keys)} ({error})") from error


def _json_rows(path: Path) -> Iterator[_Row]:
    for text, place in _lines(path):
        if text.strip():
            with told_at(place):
                values = _json_values(text, _SCORED_KEYS)
            yield values, place


def _tab_rows(path: Path) -> Iterator[_Row]:
    for text, place in _lines(path):
        if text.strip(" \r\n"):
            yield text.rstrip("\r\n").split("\t"), place


def _csv_rows(path: Path) -> Iterator[_Row]:
    reader = csv.reader((text for text, _ in _lines(path)), strict=True)
    try:
        for cells in reader:
            if len(cells) > 1 or "".join(cells).strip():
                yield cells, f"{path}, line {reader.line_num}"
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}") from error


def _choose_columns(rows: Iterator[_Row]) -> Iterator[_Row]:
    """Yield score and sentences of each row; the first row may be a header."""
    columns, width = [0, 1, 2], 3
    for i, (cells, place) in enumerate(rows):
        if i == 0 and _number(cells[0]) is None:
            names, width = [name.strip() for name in cells], len(cells)
            if missing := [key for key in _SCORED_KEYS if key not in names]:
                first = reprlib.repr(cells[0])
                raise InputError(
                    f"{place}: expected a score or a header; {first} is no number, and there is no column "
                    f"{' or '.join(missing)}"
                )
            columns = [names.index(key) for key in _SCORED_KEYS]
        elif len(cells) != width:
            raise InputError(f"{place}: expected {width} columns, got {len(cells)}")
        else:
            yield [cells[column] for column in columns], place


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (ValueError, TypeError, OverflowError):
        return None


def to_score(value: Any) -> float:
    """Return a gold score as a number.

    :raises InputError: If it is none, or not a finite one.
    """
    number = _number(value)
    if number is None or not math.isfinite(number):
        raise InputError(f"the score {reprlib.repr(value)} is not a finite number")
    return number


def _scored_pair(score: Any, a: Any, b: Any) -> ScoredPair:
    number = to_score(score)
    for key, sentence in zip(_KEYS, (a, b), strict=True):
        if isinstance(sentence, str) and not sentence.strip():
            raise InputError(
                f"{key} is empty: leave the pair out, an empty sentence has no meaning to encode"
            )
    check_sentences([a, b])
    return ScoredPair(a, b, number)
