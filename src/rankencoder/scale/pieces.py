"""A corpus as slices that are read side by side, each as pieces that are encoded and written as one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

from rankencoder.io.corpus import LONGEST, Sentence, read_sentences, usable_sentences
from rankencoder.io.files import Place, Slice, cut, fingerprint, is_address, list_files
from rankencoder.io.read_options import ReadOptions
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

    @property
    def name(self) -> str:
        """The name of its file, such as part-000012-00003: sorted, they are in the order of the corpus."""
        return f"part-{self.slice:06d}-{self.number:05d}"


class Numbered(NamedTuple):
    """A slice with its number, and the names of its pieces that are finished already."""

    number: int
    slice: Slice
    finished: frozenset[str] = frozenset()


def find_slices(cluster: RayCluster, corpus: Place) -> list[Slice]:
    """Return the slices of a corpus, in its order; many or large files are looked at on the cluster."""
    # machines of the cluster have other working folders
    files = list_files(corpus if is_address(corpus) else Path(corpus).absolute())
    if len(files) == 1 or sum(fingerprint(file)[1] or _SMALL for file in files) < _SMALL:
        return [part for file in files for part in cut(file)]
    found = dict(cluster.map(list(enumerate(files)), lambda numbered: (numbered[0], cut(numbered[1]))))
    return [part for number in range(len(files)) for part in found[number]]


def read_pieces(
    given: Numbered,
    *,
    column: str | ReadOptions | None = None,
    with_columns: bool = False,
    invalid: str = "stop",
    size: int = PIECE,
) -> Iterator[Piece]:
    """Yield the pieces of a slice that are not finished yet.

    :param invalid: What to do with empty and over-long sentences (see `usable_sentences`).
    """
    counts = {"skipped": 0}
    sentences = read_sentences(given.slice, column=column, max_chars=LONGEST, with_columns=with_columns)
    rows = usable_sentences(sentences, counts, invalid)
    for number in count():
        part = list(islice(rows, size))
        if not part and not counts["skipped"]:
            return
        piece = Piece(given.number, number, part, counts["skipped"])
        counts["skipped"] = 0
        if piece.name not in given.finished:
            yield piece
