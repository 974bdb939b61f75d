"""Encode a corpus on a Ray cluster."""

from __future__ import annotations

from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from rankencoder.encoder_sources import absolute_name
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.io.corpus import LONGEST, Sentence, read_slice, usable_sentences
from rankencoder.io.files import Place, Slice, whereabouts
from rankencoder.io.read_options import ReadOptions
from rankencoder.io.storage import import_pyarrow
from rankencoder.model import RankEncoder, open_model
from rankencoder.progress import Progress
from rankencoder.scale.cluster import RayCluster
from rankencoder.scale.result_folder import ResultFolder
from rankencoder.text_fit import with_tokenizer
from rankencoder.vector_files import PART, make_table, source_stamp

PIECE = 8192  # sentences in one file of the result, which is all that a lost worker does again


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
    device: str | None = None,
    batch_size: int = 32,
) -> dict[str, int]:
    """Encode the sentences of a corpus as `rankencoder.vector_files.encode_file` does, on a Ray cluster.

    All machines need rankencoder and access to model, source and target. Lost workers are replaced. Call it
    again to resume after an interruption.

    :param model: A folder that all machines see, or a hub name.
    :param source: A file or folder, or an address that fsspec knows.
    :param target: The folder to write, or its address: Parquet files with source, line, text and vector.
    :param cluster: In its ``with`` block.
    :param column: As for `encode_file`, like all that follows and what is returned.
    """
    _check(source, target)
    name = str(absolute_name(str(model)))
    opened = open_model(name, device="cpu", batch_size=batch_size)
    key = {"model": opened.fingerprint(), "source": source_stamp(source), "part": PIECE}
    key["column"] = ReadOptions.of(column).key()
    options = with_tokenizer(column, opened)
    del opened
    result = ResultFolder(target, key, overwrite=overwrite)
    slices = cluster.slices(source)
    counts = {"encoded": 0, "resumed": 0, "skipped": 0, "files": 0}
    settings = {"device": device, "batch_size": batch_size}
    arguments = (name, settings, slices, options, "skip" if skip_invalid else "stop", PIECE, result)
    with Progress(len(slices), desc="Encoding", unit="slices", show=progress) as bar:
        for row in cluster.run(SliceEncoder, arguments, len(slices), device):
            if row["error"]:
                raise InputError(row["error"])
            for field in counts:
                counts[field] += row[field]
            bar.update()
    files = counts.pop("files")
    if not files:
        raise InputError(f"{source} holds no sentence to encode")
    rows = counts["encoded"] + counts["resumed"]
    result.complete(files, {"rows": rows, "skipped": counts["skipped"]})
    return counts


def _check(source: Place, target: Place) -> None:
    suffix = Path(target).suffix
    if suffix in (".npy", ".jsonl", ".lance"):
        raise InputError(f"{target}: a cluster writes a folder of Parquet files, no {suffix} file")
    read, written = whereabouts(source), whereabouts(target)
    if read == written or read in written.parents or written in read.parents:
        raise InputError(f"{target} lies in {source}, which is read, or holds it: write it somewhere else")


class SliceEncoder:
    """A worker: encodes slices of the corpus and writes them, a file for each piece."""

    def __init__(
        self,
        model: str,
        settings: dict[str, Any],
        slices: list[Slice],
        options: ReadOptions,
        invalid: str,
        size: int,
        result: ResultFolder,
    ) -> None:
        self.source, self.settings = model, settings
        self.slices, self.options, self.invalid = slices, options, invalid
        self.size, self.result = size, result

    @cached_property
    def model(self) -> RankEncoder | Encoder:
        """The model, opened when the first piece is encoded."""
        return open_model(self.source, **self.settings)

    def __call__(self, row: dict[str, int]) -> dict[str, Any]:
        """Encode one slice, and return how many sentences that were, or what is wrong with them."""
        counts = {"encoded": 0, "resumed": 0, "skipped": 0, "files": 0}
        try:
            self._encode(int(row["item"]), counts)
        except (InputError, OSError) as error:
            return {**counts, "error": str(error)}
        return {**counts, "error": ""}

    def _encode(self, number: int, counts: dict[str, int]) -> None:
        found = read_slice(self.slices[number], column=self.options, max_chars=LONGEST, with_columns=True)
        rows = usable_sentences(found, counts, self.invalid)
        for piece in iter(lambda: list(islice(rows, self.size)), []):
            name = f"part-{number:06d}-{counts['files']:05d}.parquet"
            finished = self.result.has(name)
            if not finished:
                with self.result.write(name) as path:
                    import_pyarrow()[1].write_table(self._table(piece), path)
            counts["resumed" if finished else "encoded"] += len(piece)
            counts["files"] += 1

    def _table(self, piece: list[Sentence]) -> Any:
        parts = [piece[start : start + PART] for start in range(0, len(piece), PART)]
        vectors = [self.model.encode([row.text or "" for row in rows]) for rows in parts]
        return make_table(piece, np.concatenate(vectors))
