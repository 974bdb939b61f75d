"""`encode_with_ray`: sentences to vectors on a cluster."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rankencoder.errors import InputError
from rankencoder.io.files import Place, whereabouts
from rankencoder.io.read_options import ReadOptions
from rankencoder.model import open_model
from rankencoder.progress import Progress
from rankencoder.scale.cluster import RayCluster
from rankencoder.scale.output import Note, Output
from rankencoder.scale.pieces import PIECE, Numbered, Piece, find_slices, read_pieces
from rankencoder.scale.shipped import Shipped, same_everywhere
from rankencoder.text_fit import with_tokenizer
from rankencoder.vector_files import PART, make_table, source_stamp

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rankencoder.backends.opening import Opening


def encode_with_ray(
    model: str | Path,
    source: Place,
    target: Place,
    cluster: RayCluster,
    *,
    column: str | ReadOptions | None = None,
    skip_invalid: bool = False,
    overwrite: bool = False,
    progress: bool = False,
    **opening: Unpack[Opening],
) -> dict[str, int]:
    """Encode the sentences of a corpus as `rankencoder.vector_files.encode_file` does, on a Ray cluster.

    The machines need rankencoder and access to source and target, but not the model: that is sent to them.
    Lost workers are replaced. Call it again to resume after an interruption.

    :param model: A folder or hub name that `rankencoder.model.open_model` opens.
    :param source: A file or folder, or an address that fsspec knows.
    :param target: The folder to write, or its address: Parquet files with source, line, text and vector.
    :param cluster: In its ``with`` block.
    :param column: As for `encode_file`, like all that follows and what is returned.
    """
    _check(source, target)
    stamp = source_stamp(source)
    here: Opening = {**opening, "device": "cpu"}
    opened = open_model(model, **here)
    dimension, reading = opened.dimension, with_tokenizer(column, opened)
    key = {"model": opened.fingerprint(), "source": stamp, "part": PIECE}
    key["column"] = ReadOptions.of(column).key()
    pinned = same_everywhere(opening, opened, cluster.gpus)
    del opened
    output = Output(target, key, overwrite=overwrite)
    # a piece that left something out is read again by a run that is to stop there
    notes = [note for note in output.finished() if skip_invalid or not note.skipped]
    counts = {"encoded": 0, "resumed": sum(note.rows for note in notes), "skipped": 0}
    finished: dict[int, list[str]] = defaultdict(list)
    for note in notes:
        finished[note.slice].append(note.name)
    slices = enumerate(find_slices(cluster, source))
    items = [Numbered(number, part, frozenset(finished[number])) for number, part in slices]
    invalid = "skip" if skip_invalid else "stop"
    read = partial(read_pieces, column=reading, with_columns=True, invalid=invalid, size=PIECE)
    shipped = Shipped(cluster.ray, model, **pinned)
    arguments = (shipped, output, dimension)
    with Progress(desc="Encoding", initial=counts["resumed"], show=progress) as bar:
        for note in cluster.encode(items, read, _PieceEncoder, *arguments, device=opening.get("device")):
            notes.append(note)
            counts["encoded"] += note.rows
            bar.update(note.rows)
    counts["skipped"] = sum(note.skipped for note in notes)
    if not sum(note.rows for note in notes):
        raise InputError(f"{source} holds no sentence to encode")
    output.complete(notes)
    return counts


def _check(source: Place, target: Place) -> None:
    suffix = Path(target).suffix
    if suffix in (".npy", ".jsonl", ".lance"):
        raise InputError(f"{target}: a cluster writes a folder of Parquet files, no {suffix} file")
    read, written = whereabouts(source), whereabouts(target)
    if read == written or read in written.parents or written in read.parents:
        raise InputError(f"{target} lies in {source}, which is read, or holds it: write it somewhere else")


class _PieceEncoder:
    """Encodes pieces and writes them, on one of the machines."""

    def __init__(self, model: Shipped, output: Output, dimension: int) -> None:
        self.model, self.output, self.dimension = model.open(), output, dimension

    def __call__(self, piece: Piece) -> Note:
        # what was written before a worker was lost is not made again
        return self.output.note(piece.name) or self._write(piece)

    def _write(self, piece: Piece) -> Note:
        parts = [piece.rows[start : start + PART] for start in range(0, len(piece.rows), PART)]
        made = [self.model.encode([row.text or "" for row in rows]) for rows in parts]
        table = make_table(piece.rows, np.concatenate([np.zeros((0, self.dimension), np.float32), *made]))
        return self.output.write(piece, table.schema, iter(table.to_batches()))
