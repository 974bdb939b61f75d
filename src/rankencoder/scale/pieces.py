"""A corpus in slices that are read in parallel, sampled or written as pieces of Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from rankencoder.errors import InputError
from rankencoder.io.corpus import LONGEST, MAX_CHARS, Sentence, read_sentences, usable_sentences
from rankencoder.io.files import Place, Slice, cut, file_system, fingerprint, is_address, list_files
from rankencoder.io.parts import parts_folder
from rankencoder.io.read_options import ReadOptions
from rankencoder.io.sampling import Sample, Sampler
from rankencoder.io.storage import RESULT, check_free, import_pyarrow, new_file, replace_folder
from rankencoder.scale.cluster import RayCluster

_META = b"rankencoder"
_THREADS = 16  # threads that read the notes of finished pieces
_SMALL = 64 * 2**20  # bytes of a corpus that is sliced faster here than on the cluster
PIECE = 8192  # sentences of a piece: the unit of resuming, and one file of the result


@dataclass(frozen=True)
class Piece:
    """Some sentences of a slice, with the numbers of slice and piece, and how many were skipped."""

    slice: int
    number: int
    rows: list[Sentence]
    skipped: int

    @property
    def name(self) -> str:
        """The name of its file, such as part-000012-00003: sorted names have the order of the corpus."""
        return f"part-{self.slice:06d}-{self.number:05d}"


class NumberedSlice(NamedTuple):
    """A slice with its number and the names of its finished pieces."""

    number: int
    slice: Slice
    finished: frozenset[str] = frozenset()


def find_slices(cluster: RayCluster, corpus: Place) -> list[Slice]:
    """Return the slices of a corpus, in order; the cluster slices many or large files."""
    # machines of the cluster have other working folders
    files = list_files(corpus if is_address(corpus) else Path(corpus).absolute())
    if len(files) == 1 or sum(fingerprint(file)[1] or _SMALL for file in files) < _SMALL:
        return [part for file in files for part in cut(file)]
    found = dict(cluster.map(list(enumerate(files)), lambda numbered: (numbered[0], cut(numbered[1]))))
    return [part for number in range(len(files)) for part in found[number]]


def read_pieces(
    given: NumberedSlice,
    *,
    column: str | ReadOptions | None = None,
    with_columns: bool = False,
    invalid: str = "stop",
    size: int = PIECE,
) -> Iterator[Piece]:
    """Yield the unfinished pieces of a slice.

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


def sample_with_ray(
    corpus: Place,
    cluster: RayCluster,
    size: int,
    seed: int,
    *,
    column: str | ReadOptions | None = None,
    max_chars: int = MAX_CHARS,
) -> Sample:
    """Draw the sample for `Reference.build`, exactly as one machine would.

    Each machine samples its part, and the samples are merged here.

    :param corpus: A file, a folder, or an address for fsspec.
    :param cluster: A cluster, inside its ``with`` block.
    """
    drawn = Sampler(size, seed)
    draw = partial(_draw, size=size, seed=seed, column=column, max_chars=max_chars)
    for part in cluster.map(find_slices(cluster, corpus), draw):
        drawn.merge(part)
    return drawn.sample()


def _draw(part: Slice, *, size: int, seed: int, column: str | ReadOptions | None, max_chars: int) -> Sampler:
    return Sampler(size, seed).add(read_sentences(part, column=column, max_chars=max_chars))


@dataclass(frozen=True)
class Note:
    """A note on a finished piece, stored in its file."""

    name: str
    slice: int
    rows: int
    skipped: int


class Output:
    """An unfinished result. Each piece is written atomically, by any machine.

    On disk the result gets its name when it is complete; at an address, where nothing can be renamed, its
    ``_rankencoder.json`` says whether it is.

    :param target: The folder to write.
    :param key: Identifies the work; pieces with another key are deleted.
    """

    def __init__(self, target: Place, key: dict[str, Any], *, overwrite: bool) -> None:
        self.target, self.key = str(target).rstrip("/"), key
        self.local = not is_address(target)
        self.work = self.target
        if self.local:
            self.target = str(check_free(target, overwrite=overwrite))
            self.work = str(parts_folder(target))
        self.fs, self.root = file_system(self.work)
        try:
            state = dict(json.loads(self.fs.cat_file(f"{self.root}/{RESULT}")))
        except (FileNotFoundError, ValueError, TypeError):
            state = None
        if not self.local and state is None and self.fs.exists(self.root) and self.fs.ls(self.root):
            raise InputError(f"{self.target} is not from rankencoder: choose another name")
        if state is not None and state.get("complete") and not overwrite:
            raise InputError(f"{self.target} already exists: choose another name or set `overwrite`")
        if state is None or state.get("complete") or state.get("key") != key:
            if self.fs.exists(self.root):
                self.fs.rm(self.root, recursive=True)
            self._write_state({"key": key, "complete": False})

    def _write_state(self, state: dict[str, Any]) -> None:
        with self._new(RESULT) as file:
            file.write(json.dumps(state, indent=2).encode())

    @contextmanager
    def _new(self, name: str) -> Iterator[Any]:
        """Open a file that appears only when it is complete."""
        if self.local:
            with new_file(Path(self.work, name)) as temporary, open(temporary, "wb") as file:
                yield file
            return
        with TemporaryDirectory(prefix="rankencoder-") as folder:
            with open(Path(folder, "file"), "wb") as file:
                yield file
            self.fs.makedirs(self.root, exist_ok=True)
            self.fs.put_file(str(Path(folder, "file")), f"{self.root}/{name}")

    def note(self, name: str) -> Note | None:
        """Return the note on a piece, if it is finished."""
        _, pq = import_pyarrow()
        try:
            with self.fs.open(f"{self.root}/{name}.parquet", "rb") as file:
                return Note(**json.loads(pq.read_schema(file).metadata[_META]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def finished(self) -> list[Note]:
        """Return the notes of all finished pieces, in order."""
        with ThreadPoolExecutor(_THREADS) as threads:
            return [note for note in threads.map(self.note, self._names()) if note is not None]

    def _names(self) -> list[str]:
        self.fs.invalidate_cache()
        names = (Path(path) for path in self.fs.ls(self.root, detail=False))
        return sorted(path.stem for path in names if path.name.startswith("part-"))

    def write(self, piece: Piece, schema: Any, batches: Iterator[Any]) -> Note:
        """Write a piece of Arrow record batches."""
        _, pq = import_pyarrow()
        note = Note(piece.name, piece.slice, len(piece.rows), piece.skipped)
        kept = schema.with_metadata({_META: json.dumps(asdict(note))})
        with self._new(f"{piece.name}.parquet") as file, pq.ParquetWriter(file, kept) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return note

    def complete(self, notes: list[Note]) -> None:
        """Finish the result, after checking that no machine wrote pieces to its own disk."""
        absent = {note.name for note in notes}.difference(self._names())
        if absent:
            raise InputError(
                f"{len(absent)} of {len(notes)} pieces are not in {self.work}: write to a disk that all "
                "machines of the cluster share, or to an address such as s3://bucket/folder"
            )
        counts = {name: sum(getattr(note, name) for note in notes) for name in ("rows", "skipped")}
        self._write_state({"key": self.key, "complete": True, **counts})
        if self.local:
            replace_folder(Path(self.work), Path(self.target))
