"""Files of vectors: a corpus of any size is encoded part by part, and interrupted work can be resumed."""

from __future__ import annotations

import hashlib
import json
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm.auto import tqdm

from rankencoder.errors import InputError
from rankencoder.fingerprints import digest
from rankencoder.io.corpus import LONGEST, Sentence, digest_line, read_sentences, usable_sentences
from rankencoder.io.files import Place, fingerprint, is_address, list_files, whereabouts
from rankencoder.io.parts import Parts, clear_leftover_parts, clear_parts, join_vectors
from rankencoder.io.storage import check_free, import_pyarrow, new_file, write_json
from rankencoder.model import RankEncoder, open_model

if TYPE_CHECKING:
    from rankencoder.encoders import Encoder, EncoderLike

PART = 2048  # sentences that are encoded and written together
FORMATS = (".npy", ".parquet", ".jsonl")


def encode_file(
    model: EncoderLike | Encoder | RankEncoder,
    source: Place,
    target: str | Path,
    *,
    column: str | None = None,
    skip_invalid: bool = False,
    overwrite: bool = False,
    progress: bool = False,
    device: str | None = None,
    batch_size: int = 32,
) -> dict[str, int]:
    """Encode the sentences of a file or folder.

    :param model: Whatever `open_model` opens.
    :param source: What `read_sentences` reads.
    :param target: A ``.npy`` (vectors alone; ``NAME.npy.json`` beside it says of which sentences),
        ``.parquet`` or ``.jsonl`` (with text, file and line) file.
    :param skip_invalid: Skip and count empty and over-long sentences, instead of stopping at one.
    :return: How many sentences were ``encoded`` now, taken over as ``resumed``, and ``skipped``.
    :raises InputError: If the input is at fault. What was encoded so far is kept for the next try with the
        same model, input and column.
    """
    target = Path(target)
    clear_leftover_parts(target)
    _check_target(target, source, overwrite)
    stamp = source_stamp(source)
    opened = open_model(model, device=device, batch_size=batch_size)
    key = {"model": opened.fingerprint(), "source": stamp, "column": column, "format": target.suffix}
    parts = Parts(target, {**key, "part": PART})
    counts = {"encoded": 0, "resumed": 0, "skipped": 0}
    found = read_sentences(source, column=column, max_chars=LONGEST)
    rows = usable_sentences(found, counts, "skip" if skip_invalid else "stop")
    paths: list[Path] = []
    sha256 = hashlib.sha256()
    with tqdm(desc="Encoding", unit=" sentences", disable=not progress) as bar:
        for number, part in enumerate(iter(lambda: list(islice(rows, PART)), [])):
            paths.append(parts.path(number))
            for row in part:
                digest_line(sha256, row.text or "")
            if parts.is_finished(number):
                counts["resumed"] += len(part)
            else:
                with parts.write(number) as path:
                    _write_part(path, target.suffix, part, opened)
                counts["encoded"] += len(part)
            bar.update(len(part))
    if not paths:
        raise InputError(f"{source} holds no sentence to encode")
    about = {"rows": counts["encoded"] + counts["resumed"], "dimension": opened.dimension}
    _write_target(paths, target, {**about, "sha256": sha256.hexdigest(), "model": opened.name})
    clear_parts(target)
    return counts


def _check_target(target: Path, source: Place, overwrite: bool) -> None:
    if target.suffix not in FORMATS:
        raise InputError(
            f"{target}: cannot write {target.suffix or 'a file without suffix'}: use {', '.join(FORMATS)}"
        )
    check_free(target, overwrite=overwrite)
    if target.suffix == ".npy":
        check_free(about_file(target), overwrite=overwrite)
    if target.is_dir():
        raise InputError(f"{target} is a folder: give the name of a file to write")
    read, written = whereabouts(source), whereabouts(target)
    if read == written or read in written.parents:
        raise InputError(f"{target} is or lies in {source}, which is read: write it somewhere else")


def about_file(vectors: Path) -> Path:
    """Return the file beside a ``.npy`` file that says of which sentences its vectors are."""
    return vectors.with_name(f"{vectors.name}.json")


def source_stamp(source: Place) -> list[str]:
    """Return what changes when a corpus does: its place, and a digest of its files' sizes and times."""
    place = str(source) if is_address(source) else str(Path(source).resolve())
    return [place, digest(repr(fingerprint(file)) for file in list_files(source))]


def vector_schema(dimension: int) -> Any:
    """Return the Arrow schema of sentences with their vectors."""
    pa, _ = import_pyarrow()
    vector = pa.list_(pa.float32(), dimension)
    names = {"source": pa.string(), "line": pa.int64(), "text": pa.string(), "vector": vector}
    return pa.schema(list(names.items()))


def make_batch(rows: list[Sentence], vectors: np.ndarray) -> Any:
    """Return sentences and their vectors as an Arrow record batch."""
    pa, _ = import_pyarrow()
    vector = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    columns = [[getattr(row, name) for row in rows] for name in ("source", "line", "text")]
    return pa.record_batch([*columns, vector], schema=vector_schema(vectors.shape[1]))


def _write_part(path: Path, suffix: str, part: list[Sentence], model: RankEncoder | Encoder) -> None:
    vectors = model.encode([row.text or "" for row in part])
    if suffix == ".npy":
        vectors.astype("<f4").tofile(path)
    elif suffix == ".jsonl":
        with open(path, "w", encoding="utf-8") as file:
            for row, vector in zip(part, vectors.tolist(), strict=True):
                line = {"source": row.source, "line": row.line, "text": row.text, "vector": vector}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
    else:
        pa, pq = import_pyarrow()
        pq.write_table(pa.Table.from_batches([make_batch(part, vectors)]), path)


def _write_target(paths: list[Path], target: Path, about: dict[str, Any]) -> None:
    """Write the vectors, and what a ``.npy`` file cannot say of itself after them."""
    npy = target.suffix == ".npy"
    if npy:
        about_file(target).unlink(missing_ok=True)  # of the vectors that are overwritten
    with new_file(target) as path:
        _join(paths, target.suffix, about["dimension"], path)
    if npy:
        with new_file(about_file(target)) as path:
            write_json(path, about)


def _join(paths: list[Path], suffix: str, dimension: int, target: Path) -> None:
    if suffix == ".parquet":
        _, pq = import_pyarrow()
        schema = vector_schema(dimension)
        with pq.ParquetWriter(target, schema) as writer:
            for path in paths:
                writer.write_table(pq.read_table(path, schema=schema))
    elif suffix == ".npy":
        join_vectors(paths, target, "<f4", dimension)
    else:
        with open(target, "wb") as out:
            for path in paths:
                out.write(path.read_bytes())
