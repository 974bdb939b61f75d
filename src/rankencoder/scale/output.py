"""What a cluster writes: a folder of Parquet files, made of pieces that are kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rankencoder.errors import InputError
from rankencoder.io.files import Place, file_system, is_address
from rankencoder.io.parts import parts_folder
from rankencoder.io.storage import RESULT, check_free, import_pyarrow, new_file, replace_folder
from rankencoder.scale.pieces import Piece

_META = b"rankencoder"
_LOOKS = 16  # finished pieces that are looked at side by side


@dataclass(frozen=True)
class Note:
    """What is to be known of a finished piece."""

    name: str
    slice: int
    rows: int
    skipped: int


class Output:
    """A result in the making. Each piece is written whole or not at all, by whichever machine has it.

    On a disk the result takes its name when it is complete; at an address, where nothing can be renamed, its
    ``_rankencoder.json`` says so.

    :param target: The folder to write.
    :param key: What the pieces depend on: those of other work are dropped.
    """

    def __init__(self, target: Place, key: dict[str, Any], *, overwrite: bool) -> None:
        self.target, self.key = str(target).rstrip("/"), key
        self.local = not is_address(target)
        self.work = self.target
        if self.local:
            self.target = str(check_free(target, overwrite=overwrite))
            self.work = str(parts_folder(target))
        fs, root = file_system(self.work)
        state = self._state()
        if not self.local and state is None and fs.exists(root) and fs.ls(root):
            raise InputError(f"{self.target} is something else: choose another name")
        if state is not None and state.get("complete") and not overwrite:
            raise InputError(f"{self.target} already exists: choose another name or set `overwrite`")
        if state is None or state.get("complete") or state.get("key") != key:
            if fs.exists(root):
                fs.rm(root, recursive=True)
            self._write_state({"key": key, "complete": False})

    def _state(self) -> dict[str, Any] | None:
        fs, root = file_system(self.work)
        try:
            return dict(json.loads(fs.cat_file(f"{root}/{RESULT}")))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def _write_state(self, state: dict[str, Any]) -> None:
        with self._new(RESULT) as file:
            file.write(json.dumps(state, indent=2).encode())

    @contextmanager
    def _new(self, name: str) -> Iterator[Any]:
        """Open a file that is there once it is complete: by a rename, or sent as a whole."""
        if self.local:
            with new_file(Path(self.work, name)) as temporary, open(temporary, "wb") as file:
                yield file
            return
        with TemporaryDirectory(prefix="rankencoder-") as folder:
            with open(Path(folder, "file"), "wb") as file:
                yield file
            fs, root = file_system(self.work)
            fs.makedirs(root, exist_ok=True)
            fs.put_file(str(Path(folder, "file")), f"{root}/{name}")

    def note(self, name: str) -> Note | None:
        """Return what is to be known of a piece, if it is finished."""
        _, pq = import_pyarrow()
        fs, root = file_system(self.work)
        try:
            with fs.open(f"{root}/{name}.parquet", "rb") as file:
                return Note(**json.loads(pq.read_schema(file).metadata[_META]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def finished(self) -> list[Note]:
        """Return the notes of all finished pieces, in order."""
        with ThreadPoolExecutor(_LOOKS) as threads:
            return [note for note in threads.map(self.note, self._names()) if note is not None]

    def _names(self) -> list[str]:
        fs, root = file_system(self.work)
        fs.invalidate_cache()
        names = (Path(path) for path in fs.ls(root, detail=False))
        return sorted(path.stem for path in names if path.name.startswith("part-"))

    def write(self, piece: Piece, schema: Any, batches: Iterator[Any]) -> Note:
        """Write a piece of Arrow record batches, which are made meanwhile."""
        _, pq = import_pyarrow()
        note = Note(piece.name, piece.slice, len(piece.rows), piece.skipped)
        kept = schema.with_metadata({_META: json.dumps(asdict(note))})
        with self._new(f"{piece.name}.parquet") as file, pq.ParquetWriter(file, kept) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return note

    def complete(self, notes: list[Note]) -> None:
        """Make the result of its pieces; another machine may have written them on its own disk."""
        absent = {note.name for note in notes}.difference(self._names())
        if absent:
            raise InputError(
                f"{len(absent)} of {len(notes)} pieces are not in {self.work}: have all machines of the "
                "cluster write to a disk that they share, or to an address such as s3://bucket/folder"
            )
        counts = {name: sum(getattr(note, name) for note in notes) for name in ("rows", "skipped")}
        self._write_state({"key": self.key, "complete": True, **counts})
        if self.local:
            replace_folder(Path(self.work), Path(self.target))
