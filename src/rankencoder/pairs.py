"""Pairs of sentences out of files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rankencoder.corpus import LONGEST, Sentence, check_sentences, read_lines
from rankencoder.errors import InputError

_KEYS = ("sentence1", "sentence2")


class Pair(NamedTuple):
    """Two sentences."""

    a: str
    b: str


def read_pairs(path: str | Path) -> Iterator[Pair]:
    """Yield the pairs of a ``.jsonl`` file (keys "sentence1", "sentence2") or of two tab-separated columns.

    Blank lines are passed over.

    :raises InputError: If a line is no pair of sentences; with file and line.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    for row in read_lines(path, 8 * LONGEST):
        if row.text is not None and not row.text.strip():
            continue
        try:
            a, b = check_sentences(_split(row, path.suffix == ".jsonl"))
        except InputError as error:
            raise InputError(f"{row.place}: {error}") from error
        yield Pair(a, b)


def _split(row: Sentence, as_json: bool) -> list[str]:
    if row.text is None:
        raise InputError("the line is far too long for two sentences")
    if not as_json:
        cells = row.text.rstrip("\r\n").split("\t")
        if len(cells) != 2:
            raise InputError(f"expected two sentences separated by a tab, got {len(cells)} column(s)")
        return cells
    try:
        value = json.loads(row.text)
        return [value[key] for key in _KEYS]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"expected a JSON object with {' and '.join(_KEYS)} ({error})") from error
