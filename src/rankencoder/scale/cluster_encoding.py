"""`encode_with_ray`: sentences to vectors on a cluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rankencoder.errors import InputError
from rankencoder.io.files import Place, Slice, whereabouts
from rankencoder.scale.cluster import RayCluster
from rankencoder.scale.output import Note, Output
from rankencoder.scale.pieces import PIECE, Numbered, Piece, Reading, find_slices, read_pieces
from rankencoder.scale.shipped import Shipped
from rankencoder.vector_files import PART, make_batch, source_stamp, vector_schema

_SINGLE = (".npy", ".jsonl")  # formats of one file, which no two machines can write


def encode_with_ray(
    model: str | Path,
    source: Place,
    target: Place,
    cluster: RayCluster,
    *,
    column: str | None = None,
    skip_invalid: bool = False,
    overwrite: bool = False,
    progress: bool = False,
    device: str | None = None,
    batch_size: int = 32,
) -> dict[str, int]:
    """Encode the sentences of a corpus as `rankencoder.vector_files.encode_file` does, on a Ray cluster.

    The machines need rankencoder and access to source and target, but not the model: that is sent to them.
    Lost workers are replaced. Interrupted work goes on where it stopped when it is called again.

    :param model: A folder or hub name that `rankencoder.model.open_model` opens.
    :param source: A file or folder, or an address that fsspec knows.
    :param target: The folder to write, or its address: Parquet files with source, line, text and vector, or
        a Lance dataset where its name ends with ``.lance``.
    :param cluster: In its ``with`` block.
    :param column: As for `encode_file`, like all that follows and what is returned.
    """
    from tqdm.auto import tqdm

    from rankencoder.model import open_model

    _check(source, target)
    stamp = source_stamp(source)
    opened = open_model(model, device="cpu", batch_size=batch_size)
    dimension = opened.dimension
    key = {"model": opened.fingerprint(), "source": stamp, "column": column, "part": PIECE}
    del opened
    output = Output(target, key, overwrite=overwrite)
    # a piece that left something out is read again by a run that is to stop there
    notes = [note for note in output.finished() if skip_invalid or not note.skipped]
    counts = {"encoded": 0, "resumed": sum(note.rows for note in notes), "skipped": 0}
    reading = Reading(column, invalid="skip" if skip_invalid else "stop", size=PIECE)
    with tqdm(desc="Encoding", unit=" sentences", disable=not progress, initial=counts["resumed"]) as bar:
        left = unfinished(find_slices(cluster, source), notes, reading)
        arguments = (Shipped(cluster.ray, model), output, dimension, device, batch_size)
        done: Iterator[Note] = (
            cluster.encode(left, read_pieces, _PieceEncoder, *arguments, device=device) if left else iter(())
        )
        for note in done:
            notes.append(note)
            counts["encoded"] += note.rows
            bar.update(note.rows)
    counts["skipped"] = sum(note.skipped for note in notes)
    if not sum(note.rows for note in notes):
        raise InputError(f"{source} holds no sentence to encode")
    output.complete(sorted(notes, key=lambda note: note.name), vector_schema(dimension))
    return counts


def _check(source: Place, target: Place) -> None:
    suffix = Path(target).suffix
    if suffix in _SINGLE:
        raise InputError(f"{target}: a cluster writes a folder of Parquet files or .lance, no {suffix} file")
    read, written = whereabouts(source), whereabouts(target)
    if read == written or read in written.parents or written in read.parents:
        raise InputError(f"{target} lies in {source}, which is read, or holds it: write it somewhere else")


def unfinished(slices: list[Slice], notes: list[Note], reading: Reading) -> list[Numbered]:
    """Return the slices of which pieces are missing, with the names of those that are not."""
    finished: dict[int, list[Note]] = defaultdict(list)
    for note in notes:
        finished[note.slice].append(note)
    left = []
    for number, part in enumerate(slices):
        own = finished[number]
        last = next((note.name for note in own if note.last), None)
        if last is None or int(last.rpartition("-")[2]) + 1 != len(own):
            left.append(Numbered(number, part, reading, frozenset(note.name for note in own)))
    return left


class _PieceEncoder:
    """Encodes pieces and writes them, on one of the machines."""

    def __init__(
        self, model: Shipped, output: Output, dimension: int, device: str | None, batch_size: int
    ) -> None:
        from rankencoder.model import open_model

        with model.unpacked() as source:
            self.model = open_model(source, device=device, batch_size=batch_size)
        self.output, self.schema = output, vector_schema(dimension)

    def __call__(self, piece: Piece) -> Note:
        # what was written before a worker was lost is not made again
        return self.output.note(piece.name) or self.output.write(piece, self.schema, self._batches(piece))

    def _batches(self, piece: Piece) -> Iterator[Any]:
        for start in range(0, len(piece.rows), PART):
            rows = piece.rows[start : start + PART]
            yield make_batch(rows, self.model.encode([row.text or "" for row in rows]))
