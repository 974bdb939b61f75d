"""The folder of Parquet files that a cluster writes, on a shared disk or at an address."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rankencoder.errors import InputError
from rankencoder.io.files import Place, file_system, is_address
from rankencoder.io.parts import parts_folder
from rankencoder.io.storage import RESULT, check_free, new_file, replace_folder


class ResultFolder:
    """A folder of files, each written whole or not at all by any machine.

    A resumed run keeps finished files.
    On a disk the folder takes its name when it is complete. At an address, where nothing can be renamed, its
    ``_rankencoder.json`` says whether it is.

    :param key: What the files depend on: files of other work are deleted.
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
            raise InputError(f"{self.target} holds other files: choose another name")
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
        with self.write(RESULT) as path:
            path.write_text(json.dumps(state, indent=2), encoding="utf-8")

    def has(self, name: str) -> bool:
        """Return whether a file is finished."""
        fs, root = file_system(self.work)
        return bool(fs.exists(f"{root}/{name}"))

    @contextmanager
    def write(self, name: str) -> Iterator[Path]:
        """Give a path to write to; its content becomes the file when the block ends without an error."""
        if self.local:
            with new_file(Path(self.work, name)) as path:
                yield path
            return
        with TemporaryDirectory(prefix="rankencoder-") as folder:
            path = Path(folder, "file")
            yield path
            fs, root = file_system(self.work)
            fs.makedirs(root, exist_ok=True)
            fs.put_file(str(path), f"{root}/{name}")

    def complete(self, files: int, counts: dict[str, int]) -> None:
        """Mark the result as complete, if all its files are here and not on another machine's disk."""
        fs, root = file_system(self.work)
        fs.invalidate_cache()
        found = len(fs.glob(f"{root}/part-*"))
        if found < files:
            raise InputError(
                f"{files - found} of {files} files are not in {self.work}: let all machines of the cluster "
                "write to a disk that they share, or to an address such as s3://bucket/folder"
            )
        self._write_state({"key": self.key, "complete": True, **counts})
        if self.local:
            replace_folder(Path(self.work), Path(self.target))
