"""`encode_with_ray`: encode a corpus on a Ray cluster."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.backends.opening import Opening
from rankencoder.encoder_sources import encoder_folder, join_prompt, rankencoder_folder, split_prompt
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.io.files import Place, check_apart, fingerprint
from rankencoder.io.read_options import ReadOptions
from rankencoder.io.storage import absolute
from rankencoder.model import RankEncoder, open_model
from rankencoder.progress import Progress
from rankencoder.scale.cluster import RayCluster
from rankencoder.scale.pieces import PIECE, Note, NumberedSlice, Output, Piece, find_slices, read_pieces
from rankencoder.text_fit import with_tokenizer
from rankencoder.vector_files import PART, make_table, source_stamp

if TYPE_CHECKING:
    from typing_extensions import Unpack


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

    The machines need rankencoder and access to source and target, but not the model, which is sent to them.
    Lost workers are replaced. Call it again to resume after an interruption.

    :param model: A folder or hub name for `rankencoder.model.open_model`.
    :param source: A file or folder, or an address for fsspec.
    :param target: The folder or address to write: Parquet files with source, line, text and vector.
    :param cluster: A cluster, inside its ``with`` block.
    :param column: As for `encode_file`, like the other parameters and the result.
    """
    if (suffix := Path(target).suffix.lower()) in (".npy", ".jsonl", ".lance"):
        raise InputError(f"{target}: a cluster writes a folder of Parquet files, not a {suffix} file")
    check_apart(source, target)
    stamp = source_stamp(source)
    here: Opening = {**opening, "device": "cpu"}
    opened = open_model(model, **here)
    dimension, reading = opened.dimension, with_tokenizer(column, opened)
    key = {"model": opened.fingerprint(), "source": stamp, "part": PIECE}
    key["column"] = ReadOptions.of(column).key()
    pinned = same_everywhere(opening, opened, cluster.gpus)
    del opened
    output = Output(target, key, overwrite=overwrite)
    # unless skip_invalid is set, pieces that skipped sentences are read again, to stop there
    notes = [note for note in output.finished() if skip_invalid or not note.skipped]
    counts = {"encoded": 0, "resumed": sum(note.rows for note in notes), "skipped": 0}
    finished: dict[int, list[str]] = defaultdict(list)
    for note in notes:
        finished[note.slice].append(note.name)
    slices = enumerate(find_slices(cluster, source))
    items = [NumberedSlice(number, part, frozenset(finished[number])) for number, part in slices]
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


class _PieceEncoder:
    """Encodes and writes pieces, on one of the machines."""

    def __init__(self, model: Shipped, output: Output, dimension: int) -> None:
        self.model, self.output, self.dimension = model.open(), output, dimension

    def __call__(self, piece: Piece) -> Note:
        # a lost worker may have written the piece
        return self.output.note(piece.name) or self._write(piece)

    def _write(self, piece: Piece) -> Note:
        parts = [piece.rows[start : start + PART] for start in range(0, len(piece.rows), PART)]
        made = [self.model.encode([row.text or "" for row in rows]) for rows in parts]
        table = make_table(piece.rows, np.concatenate([np.zeros((0, self.dimension), np.float32), *made]))
        return self.output.write(piece, table.schema, iter(table.to_batches()))


class Shipped:
    """A model's folder in Ray's object store; a hub name stays a name."""

    def __init__(self, ray: Any, source: str | Path, **opening: Unpack[Opening]) -> None:
        name, self.prompt = split_prompt(str(source))
        name = str(rankencoder_folder(name) or encoder_folder(name))  # only the model of a training run
        self.source = str(absolute(name))
        self.files = {path: ray.put(Path(self.source, path).read_bytes()) for path in _files(self.source)}
        self.stamp = _stamp(self.source)
        self.opening = opening

    def open(self) -> RankEncoder | Encoder:
        """Open the model on this machine, from its own folder if that is on a shared disk."""
        import ray

        if _stamp(self.source) == self.stamp:
            return self._open(self.source)
        with tempfile.TemporaryDirectory(prefix="rankencoder-") as folder:
            for name, reference in self.files.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(ray.get(reference))
            return self._open(folder)

    def _open(self, source: str) -> RankEncoder | Encoder:
        return open_model(join_prompt(source, self.prompt), **self.opening)


def same_everywhere(opening: Opening, opened: RankEncoder | Encoder, gpus: int) -> Opening:
    """Return how all machines open a model; the backend "auto" becomes that of this machine."""
    if opening.get("backend") != "auto":
        return opening
    if gpus and not (opening.get("device") or "").startswith("cpu"):
        return {**opening, "backend": "torch"}
    return {**opening, "backend": opened.backend.name, "precision": opened.backend.precision}


def _files(folder: str) -> list[str]:
    """Return the files of a folder, none of a hub name."""
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file())


def _stamp(folder: str) -> list[Any]:
    """Return a fingerprint of a folder, to check whether another machine has the same."""
    return [fingerprint(Path(folder, name)) for name in _files(folder)]
