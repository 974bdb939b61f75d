"""A corpus as slices that are read side by side, each as pieces that are encoded and written as one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from rankencoder.io.corpus import LONGEST, Sentence, read_slice, usable_sentences
from rankencoder.io.files import Place, Slice, cut, fingerprint, is_address, list_files
from rankencoder.scale.cluster import RayCluster

_SMALL = 64 * 2**20  # bytes of a corpus that one machine looks at faster than it asks others
PIECE = 8192
"""Sentences of a piece: what is done again after a loss, and a file of the result."""


@dataclass(frozen=True)
class Piece:
    """Some sentences of a slice.

    :param slice: The number of the slice.
    :param number: The number of the piece in it.
    :param skipped: How many sentences were left out of it.
    :param last: Whether it is the slice's last one.
    """

    slice: int
    number: int
    rows: list[Sentence]
    skipped: int
    last: bool

    @property
    def name(self) -> str:
        """The name of its file: in the order of these, the sentences are in the order of the corpus."""
        return piece_name(self.slice, self.number)


def piece_name(slice: int, number: int) -> str:
    """Return the name of a piece.

    >>> piece_name(12, 3)
    'part-000012-00003'
    """
    return f"part-{slice:06d}-{number:05d}"


@dataclass(frozen=True)
class Reading:
    """How slices are read.

    :param column: The column that holds the sentences.
    :param with_columns: Whether the other columns are wanted too.
    :param invalid: What is done with empty and over-long sentences: "stop", "skip" or "keep".
    :param size: Sentences of a piece.
    """

    column: str | None = None
    with_columns: bool = False
    invalid: str = "stop"
    size: int = PIECE


@dataclass(frozen=True)
class Numbered:
    """A slice with its number, and the names of its pieces that are finished already."""

    number: int
    slice: Slice
    reading: Reading
    finished: frozenset[str] = field(default_factory=frozenset)


def find_slices(cluster: RayCluster, corpus: Place) -> list[Slice]:
    """Return the slices of a corpus, in its order; many or large files are looked at on the cluster.

    :raises InputError: If there is no such corpus, or a file cannot be read.
    """
    # machines of the cluster have other working folders
    files = list_files(corpus if is_address(corpus) else Path(corpus).absolute())
    if len(files) == 1 or sum(fingerprint(file)[1] or _SMALL for file in files) < _SMALL:
        return [part for file in files for part in cut(file)]
    found = dict(cluster.map(list(enumerate(files)), _cut_numbered))
    return [part for number in range(len(files)) for part in found[number]]


def _cut_numbered(numbered: tuple[int, Place]) -> tuple[int, list[Slice]]:
    number, path = numbered
    return number, cut(path)


def read_pieces(given: Numbered) -> Iterator[Piece]:
    """Yield the pieces of a slice that are not finished yet.

    :raises InputError: If the slice cannot be read, or holds what is not to be skipped.
    """
    reading, counts, number = given.reading, {"skipped": 0}, 0
    sentences = read_slice(
        given.slice, column=reading.column, max_chars=LONGEST, with_columns=reading.with_columns
    )
    rows = usable_sentences(sentences, counts, reading.invalid)
    part = list(islice(rows, reading.size))
    while True:
        following = list(islice(rows, 1))
        piece = Piece(given.number, number, part, counts["skipped"], not following)
        counts["skipped"] = 0
        if piece.name not in given.finished:
            yield piece
        if not following:
            return
        part = following + list(islice(rows, reading.size - 1))
        number += 1
