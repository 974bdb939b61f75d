"""Resumable work: finished parts are kept beside the target until all are finished."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rankencoder.errors import InputError
from rankencoder.io.manifest import MANIFEST, file_entry
from rankencoder.io.storage import check_kinds, new_file, read_json, write_json


class Parts:
    """The finished parts of one piece of work, listed with its key in a manifest.

    :param target: The file or folder to make; the parts are kept in ``.NAME.parts`` beside it.
    :param key: Identifies the work. Parts with another key are deleted, with a warning.
    """

    def __init__(self, target: str | Path, key: dict[str, Any]) -> None:
        self.folder = parts_folder(target)
        self.key = key
        self._files: dict[str, Any] = {}
        path = self.folder / MANIFEST
        try:
            begun = check_kinds(read_json(path), path, files=dict, key=dict)
        except (InputError, OSError):  # nothing, or damaged
            begun = {}
        if begun.get("key") == key:
            self._files = begun["files"]
            return
        if begun:
            warnings.warn(
                f"unfinished parts of {target} are deleted: they have another model, input or settings",
                stacklevel=3,
            )
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, number: int) -> Path:
        """Return the file of a part, finished or not."""
        return self.folder / f"part-{number:06d}"

    def is_finished(self, number: int) -> bool:
        """Return whether a part is complete and undamaged."""
        path = self.path(number)
        return path.is_file() and self._files.get(path.name) == file_entry(path)

    @contextmanager
    def write(self, number: int) -> Iterator[Path]:
        """Yield a file name for a part, which is finished if the block succeeds."""
        with new_file(self.path(number)) as path:
            yield path
            self._files[self.path(number).name] = file_entry(path)
        with new_file(self.folder / MANIFEST) as path:
            write_json(path, {"key": self.key, "files": self._files})


def join_vectors(paths: list[Path], target: Path, dtype: str, dimension: int) -> None:
    """Join parts of raw rows as one ``.npy`` file.

    The file is written, not mapped: a full disk would kill a process that writes to a mapped file.
    """
    rows = sum(path.stat().st_size for path in paths) // (np.dtype(dtype).itemsize * dimension)
    header = {"descr": dtype, "fortran_order": False, "shape": (rows, dimension)}
    with open(target, "wb") as out:
        np.lib.format.write_array_header_1_0(out, header)
        for path in paths:
            out.write(path.read_bytes())


def clear_parts(target: str | Path) -> None:
    """Delete the parts of a finished target."""
    shutil.rmtree(parts_folder(target), ignore_errors=True)


def clear_leftover_parts(target: str | Path) -> None:
    """Delete parts older than their target, left by a process that was killed after writing it."""
    target, folder = Path(target).resolve(), parts_folder(target)
    if target.exists() and folder.exists():
        newest = max((path.stat().st_mtime_ns for path in folder.iterdir()), default=0)
        if newest < target.stat().st_mtime_ns:
            clear_parts(target)


def parts_folder(target: str | Path) -> Path:
    """Return the hidden folder beside a target that holds its parts."""
    target = Path(target).resolve()
    return target.with_name(f".{target.name}.parts")
