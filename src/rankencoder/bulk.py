"""Encode files of any size to files, part by part, so that interrupted work goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.corpus import LONGEST, Sentence, read_sentences
from rankencoder.errors import InputError
from rankencoder.parts import Parts, clear_parts
from rankencoder.persistence import CONFIG, read_config
from rankencoder.storage import check_free, import_pyarrow, new_file

if TYPE_CHECKING:
    from rankencoder.model import RankEncoder

_PART = 2048
FORMATS = (".npy", ".parquet", ".jsonl")


def encode_file(
    folder: str | Path,
    source: str | Path,
    target: str | Path,
    *,
    column: str | None = None,
    skip_invalid: bool = False,
    overwrite: bool = False,
    progress: bool = False,
    device: str | None = None,
    batch_size: int = 32,
) -> dict[str, int]:
    """Encode the sentences of a file or folder with a saved RankEncoder.

    :param folder: A saved RankEncoder.
    :param source: What `read_sentences` reads.
    :param target: A ``.npy`` (vectors alone), ``.parquet`` or ``.jsonl`` (with text, file and line) file.
    :param column: The column that holds the sentences.
    :param skip_invalid: Leave out empty and over-long sentences and count them, instead of stopping at one.
    :param overwrite: Replace the target.
    :param progress: Show a progress bar.
    :param device: Where to run the encoder.
    :param batch_size: Sentences per call of the encoder.
    :return: How many sentences were ``encoded`` now, taken over as ``resumed``, and ``skipped``.
    :raises InputError: If the input is at fault. What was encoded so far is kept for the next try.
    """
    from tqdm.auto import tqdm

    from rankencoder.model import RankEncoder

    folder, source, target = Path(folder), Path(source), Path(target)
    if target.suffix not in FORMATS:
        raise InputError(
            f"{target}: cannot write {target.suffix or 'a file without suffix'}: use {', '.join(FORMATS)}"
        )
    check_free(target, overwrite=overwrite)
    rows = _Rows(source, column, skip_invalid)
    parts = Parts(target, _key(folder, source, target, column, skip_invalid))
    finished = parts.finished()
    counts = {"encoded": 0, "resumed": 0, "skipped": 0}
    model: RankEncoder | None = None
    with tqdm(desc="Encoding", unit=" sentences", disable=not progress) as bar:
        for number, part in enumerate(rows.parts()):
            if number < len(finished):
                counts["resumed"] += len(part)
            else:
                model = model or RankEncoder.load(folder, device=device, batch_size=batch_size)
                with parts.write(number) as path:
                    _write_part(path, target.suffix, part, model)
                counts["encoded"] += len(part)
            bar.update(len(part))
    counts["skipped"] = rows.skipped
    paths = parts.finished()
    if not paths:
        raise InputError(f"{source} holds no sentence to encode")
    with new_file(target) as path:
        _join(paths, target.suffix, path)
    clear_parts(target)
    return counts


class _Rows:
    """The usable sentences of a source, in parts."""

    def __init__(self, source: Path, column: str | None, skip_invalid: bool) -> None:
        self.source, self.column, self.skip_invalid = source, column, skip_invalid
        self.skipped = 0

    def parts(self) -> Iterator[list[Sentence]]:
        rows = iter(self)
        while part := list(islice(rows, _PART)):
            yield part

    def __iter__(self) -> Iterator[Sentence]:
        for row in read_sentences(self.source, column=self.column, max_chars=LONGEST):
            if row.text:
                yield row
            elif self.skip_invalid:
                self.skipped += 1
            else:
                what = "empty" if row.text is not None else f"longer than {LONGEST:,} characters"
                raise InputError(
                    f"{row.place}: the sentence is {what}; mend the line, or skip such lines (--skip-invalid)"
                )


def _key(folder: Path, source: Path, target: Path, column: str | None, skip_invalid: bool) -> dict[str, Any]:
    """Return what the parts depend on; work with another key starts anew."""
    read_config(folder)
    files = sorted(f for f in source.rglob("*") if f.is_file()) if source.is_dir() else [source]
    stats = [(str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in files if f.exists()]
    model = hashlib.sha256((folder / CONFIG).read_bytes()).hexdigest()
    stamp = hashlib.sha256(json.dumps(stats).encode()).hexdigest()
    changed = (folder / CONFIG).stat().st_mtime_ns
    return {
        "model": [str(folder.resolve()), model, changed],
        "source": [str(source.resolve()), stamp],
        "format": target.suffix,
        "column": column,
        "skip_invalid": skip_invalid,
        "part": _PART,
    }


def _write_part(path: Path, suffix: str, part: list[Sentence], model: RankEncoder) -> None:
    vectors = model.encode([row.text or "" for row in part])
    if suffix == ".npy":
        with open(path, "wb") as file:
            np.save(file, vectors, allow_pickle=False)
    elif suffix == ".jsonl":
        with open(path, "w", encoding="utf-8") as file:
            for row, vector in zip(part, vectors.tolist(), strict=True):
                line = {"source": row.source, "line": row.line, "text": row.text, "vector": vector}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
    else:
        pa, pq = import_pyarrow()
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
        names = ("source", "line", "text")
        table = {name: [getattr(row, name) for row in part] for name in names}
        pq.write_table(pa.table({**table, "vector": column}), path)


def _join(paths: list[Path], suffix: str, target: Path) -> None:
    if suffix == ".npy":
        arrays = [np.load(path, mmap_mode="r", allow_pickle=False) for path in paths]
        shape = (sum(map(len, arrays)), arrays[0].shape[1])
        joined = np.lib.format.open_memmap(target, mode="w+", dtype=np.float32, shape=shape)
        start = 0
        for array in arrays:
            joined[start : start + len(array)] = array
            start += len(array)
        joined.flush()
    elif suffix == ".jsonl":
        with open(target, "wb") as out:
            for path in paths:
                with open(path, "rb") as file:
                    shutil.copyfileobj(file, out)
    else:
        _, pq = import_pyarrow()
        first = pq.read_schema(paths[0])
        with pq.ParquetWriter(target, first) as writer:
            for path in paths:
                writer.write_table(pq.read_table(path, schema=first))
