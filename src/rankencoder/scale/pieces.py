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
PIECE = 8192  # sentences of a piece: what is done again after a loss, and a file of the result


@dataclass(frozen=True)
class Piece:
    """Some sentences of a slice: the number of the slice, that of the piece, how many were left out."""

    slice: int
    number: int
    rows: list[Sentence]
    skipped: int
    last: bool

    @property
    def name(self) -> str:
        """The name of its file, such as part-000012-00003: sorted, they are in the order of the corpus."""
        return f"part-{self.slice:06d}-{self.number:05d}"


@dataclass(frozen=True)
class Reading:
    """How slices are read.

    :param with_columns: Whether the columns beside the sentences' are wanted too.
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
    """Return the slices of a corpus, in its order; many or large files are looked at on the cluster."""
    # machines of the cluster have other working folders
    files = list_files(corpus if is_address(corpus) else Path(corpus).absolute())
    if len(files) == 1 or sum(fingerprint(file)[1] or _SMALL for file in files) < _SMALL:
        return [part for file in files for part in cut(file)]
    found = dict(cluster.map(list(enumerate(files)), lambda numbered: (numbered[0], cut(numbered[1]))))
    return [part for number in range(len(files)) for part in found[number]]


def read_pieces(given: Numbered) -> Iterator[Piece]:
    """Yield the pieces of a slice that are not finished yet."""
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
