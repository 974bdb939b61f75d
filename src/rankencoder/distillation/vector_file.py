"""Read a teacher's vectors from a file, and check them against the corpus."""

from __future__ import annotations

import hashlib
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rankencoder.encoders import find_invalid, unit
from rankencoder.errors import InputError, TrainingWarning, shorten
from rankencoder.io.corpus import digest_line
from rankencoder.io.files import open_parquet
from rankencoder.io.storage import check_kinds, file_digest, import_pyarrow, read_array, read_json
from rankencoder.training.sentences import Sentences
from rankencoder.vector_files import about_file

_BLOCK = 8192  # sentences to read at a time


class VectorFile:
    """Vectors in a file, checked against the sentences of a corpus.

    :param path: A ``.npy`` file of floats, ``[n, dimension]``, or a ``.parquet`` file with a column "vector"
        and, to check against, "text". It has one row per usable line of the corpus (neither empty nor
        over-long, duplicates included), in the same order.
    :param sentences: The stored sentences of that corpus.
    :raises InputError: If the vectors belong to another text.
    """

    part = _BLOCK

    def __init__(self, path: str | Path, sentences: Sentences) -> None:
        self.path = Path(path)
        self.name = str(path)
        self._sentences = sentences
        self._file = open_rows(self.path)
        self.dimension = self._file.shape[1]
        rows, lines = self._file.shape[0], sentences.lines
        if rows != lines:
            raise InputError(
                f"{path} holds {rows:,} vectors, and the corpus {lines:,} usable lines (neither empty nor "
                "over-long, duplicates counted): encode this corpus again"
            )
        self._sha256 = self._file.text_sha256()
        if self._sha256 not in (None, sentences.lines_sha256):
            raise InputError(f"{path} holds vectors of a different text: encode this corpus again")

    def check(self) -> None:
        """Read all rows once, to find invalid vectors before hours of work."""
        if self._sha256 is None:
            warnings.warn(
                f"{self.path} does not name the sentences of its vectors: only their number was checked",
                TrainingWarning,
                stacklevel=2,
            )
        for start in range(0, len(self._sentences), _BLOCK):
            self.rows(start, start + _BLOCK)

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Return the float32 unit vectors of the stored sentences from one row up to another."""
        places = self._sentences.places(start, stop)
        with np.errstate(over="ignore"):  # values beyond float32 are reported as infinite
            vectors = torch.from_numpy(self._file.read(places).astype(np.float32))
        if (found := find_invalid(vectors)) is not None:
            row, what, _ = found
            sentence = self._sentences.texts(start + row, start + row + 1)[0]
            raise InputError(
                f"{self.path}, row {places[row]:,} is a {what} vector (of {shorten(sentence)!r}): drop "
                "the sentence from the corpus, or encode it again"
            )
        return np.asarray(unit(vectors).numpy())

    def fingerprint(self) -> str:
        """Return the digest of the file."""
        return file_digest(self.path)


def open_rows(path: Path) -> _Array | _Table:
    """Open a file of vectors without checking which sentences they belong to."""
    formats: dict[str, Any] = {".npy": _Array, ".parquet": _Table}
    if path.suffix.lower() not in formats:
        raise InputError(f"{path}: vectors are read from {' or '.join(formats)} files")
    if not path.is_file():
        raise InputError(f"no such file of vectors: {path}")
    rows: _Array | _Table = formats[path.suffix.lower()](path)
    if 0 in rows.shape:
        raise InputError(f"{path} holds no vectors")
    return rows


class _Array:
    """A memory-mapped ``.npy`` file; `encode_file` writes the digest of its sentences beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.array = read_array(path, "r")
        if self.array.ndim != 2 or self.array.dtype.kind != "f":
            raise InputError(
                f"{path} holds {self.array.dtype} numbers of shape {list(self.array.shape)}: expected one "
                "row of floats per sentence"
            )
        self.shape: tuple[int, int] = self.array.shape

    def read(self, places: np.ndarray) -> np.ndarray:
        """Return some rows, in ascending order."""
        return np.asarray(self.array[places])

    def text_sha256(self) -> str | None:
        """Return the digest of the sentences, if the file names them."""
        path = about_file(self.path)
        if not path.exists():
            return None
        about = check_kinds(read_json(path), path, rows=int, dimension=int, sha256=str)
        if (about["rows"], about["dimension"]) != self.shape:
            raise InputError(f"{path} does not describe {self.path}: delete it, or encode again")
        return str(about["sha256"])


class _Table:
    """A ``.parquet`` file, read one row group at a time."""

    def __init__(self, path: Path) -> None:
        pa, _ = import_pyarrow()
        self.path = path
        with open_parquet(path) as file:
            schema, groups = file.schema_arrow, range(file.num_row_groups)
            sizes = [file.metadata.row_group(i).num_rows for i in groups]
        kinds = {field.name: getattr(field.type, "value_type", pa.null()) for field in schema}
        lists = [name for name, kind in kinds.items() if pa.types.is_floating(kind)]
        if "vector" not in lists and len(lists) != 1:
            names = ", ".join(schema.names)
            raise InputError(f"{path} has no column 'vector' of lists of floats; there is {names}")
        self.column = "vector" if "vector" in lists else lists[0]
        self.has_text = "text" in schema.names
        self.starts = np.cumsum([0, *sizes])
        self._group = lru_cache(maxsize=1)(self._read_group)
        self.shape = (int(self.starts[-1]), 0)
        if self.shape[0]:
            self.shape = (self.shape[0], self.read(np.zeros(1, dtype=np.int64)).shape[1])

    def read(self, places: np.ndarray) -> np.ndarray:
        groups = np.searchsorted(self.starts, places, side="right") - 1
        return np.concatenate(
            [self._group(i)[places[groups == i] - self.starts[i]] for i in np.unique(groups)]
        )

    def text_sha256(self) -> str | None:
        if not self.has_text:
            return None
        sha256 = hashlib.sha256()
        with open_parquet(self.path) as file:
            for batch in file.iter_batches(columns=["text"]):
                for text in batch.column(0).to_pylist():
                    digest_line(sha256, str(text or "").strip())
        return sha256.hexdigest()

    def _read_group(self, group: int) -> np.ndarray:
        import pyarrow.compute as pc

        with open_parquet(self.path) as file:
            column = file.read_row_group(int(group), columns=[self.column])[self.column].combine_chunks()
        lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
        other = lengths != (self.shape[1] or lengths[0])  # a missing list has the length NaN
        if other.any():
            row = self.starts[group] + other.argmax()
            raise InputError(f"{self.path}, row {row:,}: the vector is missing or has a different dimension")
        return np.asarray(column.flatten().to_numpy(zero_copy_only=False)).reshape(len(lengths), -1)
