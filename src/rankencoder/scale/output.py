"""What a cluster writes: a folder of Parquet files or a Lance dataset, made of pieces that are kept."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from rankencoder.errors import InputError
from rankencoder.io.files import Place, file_system, is_address
from rankencoder.io.parts import parts_folder
from rankencoder.io.storage import RESULT, check_free, import_pyarrow, new_file, replace_folder
from rankencoder.scale.pieces import Piece

_NOTES = "_parts"  # of Lance, whose files do not say which piece they are
_META = b"rankencoder"
_LOOKS = 16  # finished pieces that are looked at side by side


@dataclass(frozen=True)
class Note:
    """What is to be known of a finished piece."""

    name: str
    slice: int
    rows: int
    skipped: int
    last: bool
    fragments: tuple[str, ...] = ()


class Output:
    """A result in the making. Each piece is written whole or not at all, by whichever machine has it.

    On a disk the result takes its name when it is complete; at an address, where nothing can be renamed, its
    ``_rankencoder.json`` says so.

    :param target: The folder to write; Lance by its suffix ``.lance``, otherwise Parquet.
    :param key: What the pieces depend on: those of other work are dropped.
    """

    def __init__(self, target: Place, key: dict[str, Any], *, overwrite: bool) -> None:
        self.target = str(target)
        self.lance = self.target.rstrip("/").endswith(".lance")
        self.local = not is_address(target)
        if self.lance:
            import_lance()
        if self.local:
            self.target = str(check_free(target, overwrite=overwrite))
            self.work = str(parts_folder(target))
        else:
            self.work = self.target.rstrip("/")
        self._take_up(key, overwrite)

    def _take_up(self, key: dict[str, Any], overwrite: bool) -> None:
        fs, root = file_system(self.work)
        state = self._state()
        if not self.local and state is None and fs.exists(root) and fs.ls(root):
            raise InputError(f"{self.target} is something else: choose another name")
        if state is not None and state.get("complete") and not overwrite:
            raise InputError(f"{self.target} already exists: choose another name, or overwrite it")
        if state is None or state.get("complete") or state.get("key") != key:
            if fs.exists(root):
                fs.rm(root, recursive=True)
            self._write_state({"key": key, "complete": False})
        self.key = key

    def _state(self) -> dict[str, Any] | None:
        fs, root = file_system(self.work)
        try:
            found = json.loads(fs.cat_file(f"{root}/{RESULT}"))
        except (FileNotFoundError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def _write_state(self, state: dict[str, Any]) -> None:
        with self._new(f"{self.work}/{RESULT}") as file:
            file.write(json.dumps(state, indent=2).encode())

    @contextmanager
    def _new(self, path: str) -> Iterator[Any]:
        """Open a file that is there once it is complete: by a rename, or sent as a whole."""
        if self.local:
            with new_file(path) as temporary, open(temporary, "wb") as file:
                yield file
        else:
            with tempfile.NamedTemporaryFile() as file:  # what fails halfway is not sent
                yield file
                file.flush()
                fs, place = file_system(path)
                fs.makedirs(place.rpartition("/")[0], exist_ok=True)
                fs.put_file(file.name, place)

    def _path(self, name: str) -> str:
        return f"{self.work}/{_NOTES}/{name}.json" if self.lance else f"{self.work}/{name}.parquet"

    def note(self, name: str) -> Note | None:
        """Return what is to be known of a piece, if it is finished."""
        fs, path = file_system(self._path(name))
        try:
            if self.lance:
                found = json.loads(fs.cat_file(path))
            else:
                _, pq = import_pyarrow()
                with fs.open(path, "rb") as file:
                    found = json.loads(pq.read_schema(file).metadata[_META])
            return Note(**{**found, "fragments": tuple(found["fragments"])})
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def finished(self) -> list[Note]:
        """Return the notes of all finished pieces, in order."""
        with ThreadPoolExecutor(_LOOKS) as threads:
            return [note for note in threads.map(self.note, self._names()) if note is not None]

    def _names(self) -> list[str]:
        fs, root = file_system(f"{self.work}/{_NOTES}" if self.lance else self.work)
        fs.invalidate_cache()
        found = fs.ls(root, detail=False) if fs.exists(root) else []
        return sorted(Path(path).stem for path in found if Path(path).name.startswith("part-"))

    def write(self, piece: Piece, schema: Any, batches: Iterator[Any]) -> Note:
        """Write a piece of Arrow record batches, which are made meanwhile."""
        note = Note(piece.name, piece.slice, len(piece.rows), piece.skipped, piece.last)
        if self.lance:
            pa, _ = import_pyarrow()
            reader = pa.RecordBatchReader.from_batches(schema, batches)
            made = import_lance().fragment.write_fragments(reader, self.work, schema) if piece.rows else []
            note = Note(**{**asdict(note), "fragments": tuple(json.dumps(f.to_json()) for f in made)})
            with self._new(self._path(piece.name)) as file:
                file.write(json.dumps(asdict(note)).encode())
            return note
        _, pq = import_pyarrow()
        kept = schema.with_metadata({_META: json.dumps(asdict(note))})
        with self._new(self._path(piece.name)) as file, pq.ParquetWriter(file, kept) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return note

    def complete(self, notes: list[Note], schema: Any) -> None:
        """Make the result of its pieces; another machine may have written them on its own disk."""
        fs, root = file_system(self.work)
        absent = {note.name for note in notes}.difference(self._names())
        if absent:
            raise InputError(
                f"{len(absent)} of {len(notes)} pieces are not in {self.work}: have all machines of the "
                "cluster write to a disk that they share, or to an address such as s3://bucket/folder"
            )
        if self.lance:
            lance = import_lance()
            made = [lance.FragmentMetadata.from_json(text) for note in notes for text in note.fragments]
            dataset = lance.LanceDataset.commit(self.work, lance.LanceOperation.Overwrite(schema, made))
            dataset.cleanup_old_versions(timedelta(0), delete_unverified=True)  # of pieces that were lost
            fs.rm(f"{root}/{_NOTES}", recursive=True)
        counts = {name: sum(getattr(note, name) for note in notes) for name in ("rows", "skipped")}
        self._write_state({"key": self.key, "complete": True, **counts})
        if self.local:
            replace_folder(Path(self.work), Path(self.target))


def import_lance() -> Any:
    """Return the module lance, which is an extra."""
    try:
        import lance
    except ImportError as error:
        raise InputError("Lance datasets need pylance: pip install 'rankencoder[ray]'") from error
    return lance
