"""Read pairs of sentences from files, with or without scores."""

from __future__ import annotations

import csv
import json
import math
import reprlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rankencoder.errors import InputError, located
from rankencoder.io.corpus import LONGEST, check_sentences
from rankencoder.io.files import Slice, bare_suffix, read_lines

_KEYS = ("sentence1", "sentence2")
_WEIGHT = "weight"
_SCORED_KEYS = ("score", *_KEYS)
_STSB_COLUMNS = {"score": 4, "sentence1": 5, "sentence2": 6}
_SICK_COLUMNS = {"sentence1": 1, "sentence2": 2, "score": 3}
_SICK_HEADER = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score")
_Row = tuple[list[Any], str]  # cells and place

DEV_FILES = {"stsb": "STS/STSBenchmark/sts-dev.csv", "sickr": "SICK/SICK_trial.txt"}
"""Standard dev sets by name: their files in SentEval's folder ``downstream``."""


class Pair(NamedTuple):
    """Two sentences."""

    a: str
    b: str


class ScoredPair(NamedTuple):
    """Two sentences, their gold similarity, and how many pairs they stand for."""

    a: str
    b: str
    score: float
    weight: float = 1.0


def read_pairs(path: str | Path) -> Iterator[Pair]:
    """Yield the pairs of a file with two columns, or with scores, as for `read_scored_pairs`; drop these."""
    for cells, place in _read_rows(Path(path), _KEYS):
        with located(place):
            yield _check_pair(*cells)


def read_scored_pairs(path: str | Path, *, check: bool = True) -> list[ScoredPair]:
    """Return the pairs of a file with their gold scores, such as those of the STS sets.

    A ``.jsonl`` file has the keys "score", "sentence1" and "sentence2"; a ``.csv`` file, or any other of
    tab-separated columns, has these columns in this order or a header that names them. SentEval's tables of
    STS-B (``sts-dev.csv``) and SICK (``SICK_trial.txt``) work too. Blank lines are skipped. A column "weight"
    says how many pairs each stands for.

    :param path: The file, plain or as ``.gz``, ``.bz2`` or ``.xz``.
    :param check: Require at least two pairs and two different scores, as correlations do.
    """
    rows = _read_rows(Path(path), _SCORED_KEYS)
    pairs = [make_pair(a, b, score, place, *weight) for (score, a, b, *weight), place in rows]
    if not check:
        return pairs
    if len(pairs) < 2:
        raise InputError(f"{path}: {len(pairs)} pair(s), but a rank correlation needs at least two")
    if len({pair.score for pair in pairs}) == 1:
        raise InputError(f"{path}: all scores are {pairs[0].score:g}, so nothing can correlate with them")
    return pairs


def _check_weight(value: Any, place: str) -> float:
    weight = _number(value)
    if weight is None or not 0 < weight < math.inf:
        raise InputError(f"{place}: the weight {reprlib.repr(value)} is not a positive number")
    return weight


def make_pair(a: Any, b: Any, score: Any, place: str, weight: Any = 1.0) -> ScoredPair:
    """Return a pair after checking its sentences, score and weight; errors name its place."""
    with located(place):
        number = _number(score)
        if number is None or not math.isfinite(number):
            raise InputError(f"the score {reprlib.repr(score)} is not a finite number")
        pair = _check_pair(a, b)
    return ScoredPair(*pair, number, _check_weight(weight, place))


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) else float(value)
    except (ValueError, TypeError, OverflowError):
        return None


def _check_pair(a: Any, b: Any) -> Pair:
    for key, sentence in zip(_KEYS, (a, b), strict=True):
        if isinstance(sentence, str) and not sentence.strip():
            raise InputError(f"{key} is empty: drop the pair, there is nothing to encode")
    check_sentences([a, b])
    return Pair(a, b)


def _read_rows(path: Path, keys: tuple[str, ...]) -> Iterator[_Row]:
    """Yield the cells of some columns, row by row; scored pairs may have a weight, too."""
    if not path.is_file():
        what = "not a regular file" if path.exists() else "no such file"
        raise InputError(f"{what}: {path}")
    suffix = bare_suffix(path)
    if suffix in (".jsonl", ".ndjson"):
        yield from _json_rows(path, keys)
    elif (is_sick := _is_senteval_sick(path)) is not None:
        yield from senteval_rows(path, is_sick=is_sick, keys=keys)
    else:
        yield from _choose_columns(_csv_rows(path) if suffix == ".csv" else _tab_rows(path), keys)


def read_pair_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each line and its place."""
    for row in read_lines(Slice(path), 8 * LONGEST):
        if row.text is None:
            raise InputError(f"{row.place}: the line is too long for two sentences")
        yield row.text, row.place


def _is_senteval_sick(path: Path) -> bool | None:
    """Return whether a file is SentEval's table of SICK, or else of STS-B; None if it is neither."""
    first, _ = next(read_pair_lines(path), ("", ""))
    cells = first.split("\t")
    if tuple(cells[:4]) == _SICK_HEADER:
        return True
    is_stsb = len(cells) > 6 and _number(cells[0]) is None and _number(cells[4]) is not None
    return False if is_stsb else None


def senteval_rows(path: Path, *, is_sick: bool, keys: tuple[str, ...] = _SCORED_KEYS) -> Iterator[_Row]:
    """Yield the cells of some columns of SentEval's table of STS-B or SICK, row by row."""
    columns = _SICK_COLUMNS if is_sick else _STSB_COLUMNS
    for number, (text, place) in enumerate(read_pair_lines(path)):
        cells = text.split("\t")  # at tabs only: stray quotes would merge lines
        if not text.strip() or (is_sick and number == 0):
            continue
        if len(cells) <= max(columns.values()):
            raise InputError(
                f"{place}: expected at least {max(columns.values()) + 1} columns, got {len(cells)}"
            )
        yield [" ".join(cells[columns[key]].split()) for key in keys], place


def _json_rows(path: Path, keys: tuple[str, ...]) -> Iterator[_Row]:
    for text, place in read_pair_lines(path):
        if not text.strip():
            continue
        try:
            value = json.loads(text)
            more = [value[_WEIGHT]] if keys == _SCORED_KEYS and _WEIGHT in value else []
            yield [*(value[key] for key in keys), *more], place
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(
                f"{place}: expected a JSON object with {' and '.join(keys)} ({error})"
            ) from error


def _tab_rows(path: Path) -> Iterator[_Row]:
    for text, place in read_pair_lines(path):
        if text.strip(" \r\n"):
            yield text.rstrip("\r\n").split("\t"), place


def _csv_rows(path: Path) -> Iterator[_Row]:
    reader = csv.reader((text for text, _ in read_pair_lines(path)), strict=True)
    try:
        for cells in reader:
            if len(cells) > 1 or "".join(cells).strip():
                yield cells, f"{path}, line {reader.line_num}"
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}") from error


def _choose_columns(rows: Iterator[_Row], keys: tuple[str, ...]) -> Iterator[_Row]:
    """Yield the cells of some columns. The first row may be a header; without one, scores may come first."""
    columns, width = list(range(len(keys))), len(keys)
    for i, (cells, place) in enumerate(rows):
        if i == 0:
            names = [name.strip() for name in cells]
            if set(keys) <= set(names):
                more = [_WEIGHT] if keys == _SCORED_KEYS and _WEIGHT in names else []
                columns, width = [names.index(key) for key in (*keys, *more)], len(cells)
                continue
            if keys == _SCORED_KEYS and _number(cells[0]) is None:
                missing = " or ".join(key for key in keys if key not in names)
                raise InputError(
                    f"{place}: expected a score or a header: {reprlib.repr(cells[0])} is not a number, and "
                    f"there is no column {missing}"
                )
            if keys == _KEYS and len(cells) == len(_SCORED_KEYS) and _number(cells[0]) is not None:
                columns, width = [1, 2], 3
        if len(cells) != width:
            raise InputError(f"{place}: expected {width} columns, got {len(cells)}")
        yield [cells[column] for column in columns], place
