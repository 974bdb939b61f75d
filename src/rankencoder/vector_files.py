"""Encode corpora of any size to files, in resumable parts."""

from __future__ import annotations

import hashlib
import warnings
from contextlib import ExitStack
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.errors import InputError
from rankencoder.fingerprints import digest
from rankencoder.io.corpus import (
    LONGEST,
    Sentence,
    digest_line,
    estimate_sentences,
    read_sentences,
    usable_sentences,
)
from rankencoder.io.files import Place, check_apart, fingerprint, is_address, list_files
from rankencoder.io.parts import Parts, clear_leftover_parts, clear_parts, join_vectors
from rankencoder.io.read_options import ReadOptions
from rankencoder.io.row_files import as_cells, as_text, carried_arrays, plain, to_json
from rankencoder.io.storage import check_free, import_pyarrow, new_file, write_json
from rankencoder.model import RankEncoder, open_model
from rankencoder.progress import FASTER, Progress
from rankencoder.text_fit import TextFit, with_tokenizer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rankencoder.backends.opening import Opening
    from rankencoder.encoders import Encoder, EncoderLike

PART = 2048  # sentences to encode and write at a time
FORMATS = (".npy", ".parquet", ".jsonl", ".csv")


def encode_file(
    model: EncoderLike | Encoder | RankEncoder,
    source: Place,
    target: str | Path,
    *,
    column: str | ReadOptions | None = None,
    skip_invalid: bool = False,
    overwrite: bool = False,
    progress: bool = False,
    **opening: Unpack[Opening],
) -> dict[str, int]:
    """Encode the sentences of a file or folder.

    :param model: Anything that `open_model` opens.
    :param source: Anything that `read_sentences` reads.
    :param target: A ``.parquet``, ``.jsonl`` or ``.csv`` file (text, file, line, vector and the table's
        columns; in CSV the vector is JSON), or a ``.npy`` file (only vectors; ``NAME.npy.json`` beside it has
        the ids, if any).
    :param column: The column that holds the sentences, or all `ReadOptions`.
    :param opening: ``device``, ``batch_size``, ``backend`` and ``precision``, as for `open_model`.
    :param skip_invalid: Skip and count empty and over-long sentences instead of stopping.
    :return: The numbers of sentences ``encoded``, ``resumed`` from an earlier run, and ``skipped``.
    :raises InputError: If the input is invalid. Finished parts are kept for the next run with the same
        model, input and column.
    """
    target = Path(target)
    clear_leftover_parts(target)
    _check_target(target, source, overwrite)
    stamp, suffix = source_stamp(source), target.suffix.lower()
    opened = open_model(model, **opening)
    options = ReadOptions.of(column)
    key = {"model": opened.fingerprint(), "source": stamp, "column": options.key(), "format": suffix}
    parts = Parts(target, {**key, "part": PART})
    counts = {"encoded": 0, "resumed": 0, "skipped": 0}
    reading = with_tokenizer(options, opened)
    found = read_sentences(source, column=reading, max_chars=LONGEST, with_columns=True)
    rows = usable_sentences(found, counts, "skip" if skip_invalid else "stop")
    paths: list[Path] = []
    sha256, fit = hashlib.sha256(), TextFit(opened)
    identity, ids, left_out = options.id_name, list[Any](), dict[str, None]()  # beside a .npy file
    total = estimate_sentences(source, reading) if progress else None
    with Progress(total, desc="Encoding", faster=FASTER, show=progress) as bar:
        for number, part in enumerate(iter(lambda: list(islice(rows, PART)), [])):
            paths.append(parts.path(number))
            for row in part:
                digest_line(sha256, row.text or "")
                if suffix == ".npy":
                    left_out.update(dict.fromkeys(row.columns or ()))
                    ids.append(plain((row.columns or {}).get(identity)))
            fit.add([row.text or "" for row in part])
            if parts.is_finished(number):
                counts["resumed"] += len(part)
            else:
                with parts.write(number) as path:
                    _write_part(path, suffix, part, opened)
                counts["encoded"] += len(part)
            bar.update(len(part))
    if not paths:
        raise InputError(f"{source} holds no sentence to encode")
    fit.warn()
    about: dict[str, Any] = {"rows": counts["encoded"] + counts["resumed"], "dimension": opened.dimension}
    about["backend"] = asdict(opened.backend)
    if names := ", ".join(name for name in left_out if name != identity):
        warnings.warn(f"a .npy file has no columns: {names} left out; write .parquet instead", stacklevel=2)
    if identity in left_out:
        about["ids"] = ids
    _write_target(paths, target, {**about, "sha256": sha256.hexdigest(), "model": opened.name})
    clear_parts(target)
    return counts


def _check_target(target: Path, source: Place, overwrite: bool) -> None:
    if (suffix := target.suffix.lower()) not in FORMATS:
        raise InputError(
            f"{target}: cannot write {suffix or 'a file without suffix'}: use {', '.join(FORMATS)}"
        )
    check_free(target, overwrite=overwrite)
    if suffix == ".npy":
        check_free(about_file(target), overwrite=overwrite)
    if target.is_dir():
        raise InputError(f"{target} is a folder: pass the name of a file to write")
    check_apart(source, target)


def about_file(vectors: Path) -> Path:
    """Return the path of the metadata beside a ``.npy`` file."""
    return vectors.with_name(f"{vectors.name}.json")


def source_stamp(source: Place) -> list[str]:
    """Return a corpus's location and a digest of its files' sizes and times."""
    place = str(source) if is_address(source) else str(Path(source).resolve())
    return [place, digest(repr(fingerprint(file)) for file in list_files(source))]


def vector_schema(dimension: int) -> Any:
    """Return the Arrow schema of sentences with their vectors."""
    pa, _ = import_pyarrow()
    vector = pa.list_(pa.float32(), dimension)
    names = {"source": pa.string(), "line": pa.int64(), "text": pa.string(), "vector": vector}
    return pa.schema(list(names.items()))


def make_table(rows: list[Sentence], vectors: np.ndarray) -> Any:
    """Return sentences, their columns and their vectors as an Arrow table."""
    pa, _ = import_pyarrow()
    own = {name: [getattr(row, name) for row in rows] for name in ("source", "line", "text")}
    own["vector"] = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    own = {field.name: pa.array(own[field.name], field.type) for field in vector_schema(vectors.shape[1])}
    return pa.table({**own, **carried_arrays(rows)})


def _write_part(path: Path, suffix: str, part: list[Sentence], model: RankEncoder | Encoder) -> None:
    for row in part:
        for name in {"text", "vector"} & (row.columns or {}).keys() if suffix != ".npy" else ():
            raise InputError(f"{row.place}: the output has a column {name!r}: rename yours, or set `keep`")
    vectors = model.encode([row.text or "" for row in part])
    if suffix == ".npy":
        vectors.astype("<f4").tofile(path)
    elif suffix == ".jsonl":
        with open(path, "w", encoding="utf-8") as file:
            for row, vector in zip(part, vectors.tolist(), strict=True):
                line = {"source": row.source, "line": row.line, **(row.columns or {}), "text": row.text}
                file.write(to_json({**line, "vector": vector}) + "\n")
    else:
        import_pyarrow()[1].write_table(make_table(part, vectors), path)


def _write_target(paths: list[Path], target: Path, about: dict[str, Any]) -> None:
    """Write the vectors, and the metadata of a ``.npy`` file after them."""
    with ExitStack() as stack:
        if (suffix := target.suffix.lower()) == ".npy":
            write_json(stack.enter_context(new_file(about_file(target))), about)
        with new_file(target) as path:
            _join(paths, suffix, about["dimension"], path)
            if suffix == ".npy":
                about_file(target).unlink(missing_ok=True)  # describes the overwritten vectors


def _join(paths: list[Path], suffix: str, dimension: int, target: Path) -> None:
    if suffix in (".parquet", ".csv"):
        _, pq = import_pyarrow()
        from pyarrow.csv import CSVWriter

        schema = _joined_schema([pq.read_schema(path) for path in paths])
        made = pq.ParquetWriter(target, schema) if suffix == ".parquet" else None
        with made or CSVWriter(target, as_cells(schema.empty_table()).schema) as writer:
            for path in paths:
                part = _conform(pq.read_table(path), schema)
                writer.write_table(part if made else as_cells(part))
    elif suffix == ".npy":
        join_vectors(paths, target, "<f4", dimension)
    else:
        with open(target, "wb") as out:
            for path in paths:
                out.write(path.read_bytes())


def _joined_schema(schemas: list[Any]) -> Any:
    """Return a schema for the values of all parts, with text for columns of several types."""
    pa, _ = import_pyarrow()
    joined: dict[str, Any] = {}
    for field in (field for schema in schemas for field in schema):
        both = [pa.schema([one]) for one in (joined.get(field.name, field), field)]
        try:
            joined[field.name] = pa.unify_schemas(both, promote_options="permissive").field(0)
        except pa.ArrowTypeError:
            joined[field.name] = pa.field(field.name, "string")
            warnings.warn(
                f"column {field.name!r} holds values of several types: it is written as text", stacklevel=4
            )
    return pa.schema(list(joined.values()))


def _conform(table: Any, schema: Any) -> Any:
    """Convert a part to the joined schema."""
    pa, _ = import_pyarrow()
    columns = []
    for field in schema:
        found = table[field.name] if field.name in table.column_names else pa.nulls(len(table), field.type)
        is_text = found.type != field.type and field.type == pa.string()
        columns.append(as_text(found.to_pylist()) if is_text else found.cast(field.type))
    return pa.table(columns, schema=schema)
