"""`index_with_ray`: a cluster reads and encodes a corpus, and one process writes the index."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rankencoder.errors import InputError
from rankencoder.io.files import Place
from rankencoder.io.read_options import ReadOptions
from rankencoder.progress import Progress
from rankencoder.scale.cluster import RayCluster
from rankencoder.scale.cluster_encoding import Shipped, same_everywhere
from rankencoder.scale.pieces import NumberedSlice, Piece, find_slices, read_pieces
from rankencoder.search.index_rows import Row, RowWatch, changed, distinct, make_rows
from rankencoder.search.rank_index import COUNTS, RankIndex
from rankencoder.search.table import LanceRows
from rankencoder.text_fit import with_tokenizer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rankencoder.backends.opening import Opening

_PIECE = 2048  # sentences to encode and commit together, as without a cluster


def index_with_ray(
    index: RankIndex,
    corpus: Place,
    cluster: RayCluster,
    *,
    column: str | ReadOptions | None = None,
    id_column: str | None = None,
    progress: bool = False,
    **opening: Unpack[Opening],
) -> dict[str, int]:
    """Add new sentences, as `RankIndex.add` does, but encode them on a Ray cluster.

    Machines that can read the index's table (on a shared disk or at an address) skip known sentences; others
    encode everything. Each part is on disk before the next is written.

    :param index: An index whose model is on disk or on the hub.
    :param corpus: A file, a folder, or an address for fsspec.
    :param cluster: A cluster, inside its ``with`` block.
    :param column: As for `RankIndex.add`, like ``id_column``, ``progress`` and the result.
    :raises InputError: If the corpus is invalid. What was added before is kept.
    """
    if index.about.model is None:
        raise InputError(f"{index.about.name!r} is only in memory: a cluster cannot load it; save it first")
    counts, watch = dict.fromkeys(COUNTS, 0), RowWatch()
    slices = [NumberedSlice(number, part) for number, part in enumerate(find_slices(cluster, corpus))]
    options = with_tokenizer(ReadOptions.of(column, id_column), index.model)
    id_column = options.id_name if options.id and not options.split else None
    read = partial(read_pieces, column=options, with_columns=True, invalid="keep", size=_PIECE)
    model = Shipped(cluster.ray, index.about.model, **same_everywhere(opening, index.model, cluster.gpus))
    arguments = (model, index.rows.uri, id_column)
    with Progress(desc="Indexing", show=progress) as bar:
        # in order: the first of equal texts and the last of equal ids count
        done = cluster.encode(
            slices, read, _RowEncoder, *arguments, device=opening.get("device"), ordered=True
        )
        for rows, unusable in done:
            for name, number in unusable.items():
                counts[name] += number
            if rows:
                index.add_rows([watch.mark(row) for row in rows], counts)
            bar.update(len(rows))
    watch.warn()
    return counts


class _RowEncoder:
    """Encodes the new rows, on one of the machines."""

    def __init__(self, model: Shipped, table: str, id_column: str | None) -> None:
        self.model, self.id_column = model.open(), id_column
        try:
            self.table: LanceRows | None = LanceRows(table)
        except InputError:  # on another machine's disk
            self.table = None

    def __call__(self, piece: Piece) -> tuple[list[Row], dict[str, int]]:
        """Return all rows, the new ones with their vectors, and the counts of unusable sentences."""
        counts = {"empty": 0, "overlong": 0}
        rows = list(make_rows(piece.rows, self.id_column, counts))
        new = distinct(rows)
        if self.table is not None and new:
            new = changed(new, self.table.find([row.id for row in new]))
        if new:
            for row, vector in zip(new, self.model.encode([row.text for row in new]), strict=True):
                row.vector = vector
        return rows, counts
