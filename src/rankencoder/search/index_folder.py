"""The folder of an index: its configuration, its model's fingerprint, its lock."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from rankencoder._version import __version__
from rankencoder.encoder_sources import absolute_name, split_prompt
from rankencoder.errors import InputError
from rankencoder.io.manifest import check_manifest, write_manifest
from rankencoder.io.storage import (
    check_kinds,
    check_not_interrupted,
    new_file,
    read_json,
    read_tensors,
    write_json,
    write_tensors,
)
from rankencoder.labels.threshold_curve import STORED
from rankencoder.search.calibration import Calibration
from rankencoder.search.table import LanceRows

CONFIG = "index.json"
_PROBE = "probe.safetensors"
_CALIBRATION = "calibration.json"
_LOCK = ".lock"
_FORMAT = 1


@dataclass(frozen=True)
class About:
    """The configuration of an index.

    :param model: The path or hub name of its model; None for a model that was only in memory.
    :param name: The model's display name.
    :param table: The location of its table, if not the folder.
    :param identity: The fingerprint of the model when the index was made.
    """

    model: str | None
    name: str
    dimension: int
    table: str | None = None
    identity: str | None = None


class IndexFolder:
    """The files of an index, except for its table."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder).resolve()
        self.config = self.path / CONFIG

    def exists(self) -> bool:
        """Return whether there is an index."""
        return self.config.exists()

    def claim(self) -> None:
        """Create the folder, unless it holds something other than an index."""
        begun = self.exists() or (self.path / _LOCK).exists()
        if self.path.exists() and not begun and (not self.path.is_dir() or any(self.path.iterdir())):
            raise InputError(f"{self.path} is not an index: choose another name")
        self.path.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def removed_if_empty(self) -> Iterator[None]:
        """Remove a new folder if the block fails before it adds anything."""
        was_there = self.path.exists()
        try:
            yield
        except InputError:
            if not was_there and self.exists() and not len(LanceRows(self.read()[0].table or str(self.path))):
                shutil.rmtree(self.path)
            raise

    def write(self, about: About, probe: np.ndarray) -> None:
        """Write the configuration and the model's fingerprint; `CONFIG` comes last, as it marks an index."""
        with new_file(self.path / _PROBE) as path:
            write_tensors(path, {"probe": probe})
        with new_file(self.config) as path:
            write_json(path, {"format": _FORMAT, "version": __version__, **asdict(about)})
        write_manifest(self.path, [self.path / _PROBE])  # all other files may change

    def read(self) -> tuple[About, np.ndarray]:
        """Read the configuration and the model's fingerprint."""
        if not self.exists():
            check_not_interrupted(self.path)
            what = "no index in" if self.path.exists() else "no such folder:"
            raise InputError(f"{what} {self.path}: index a corpus first")
        stored = read_json(self.config, _FORMAT, advice="make the index again")
        texts = {name: str for name in ("model", "table", "identity") if stored.get(name) is not None}
        check_kinds(stored, self.config, name=str, dimension=int, **texts)
        about = About(*(stored.get(name) for name in About.__dataclass_fields__))  # type: ignore[arg-type]
        check_manifest(self.path, advice="make the index again")
        return about, read_tensors(self.path / _PROBE)["probe"]

    def identity_of(self, about: About, source: Any) -> str | None:
        """Return the stored fingerprint of a model; None for a model other than that of the index.

        :param about: The index's configuration.
        :param source: The model by name; None for the index's own. Its files must be older than the index.
        """
        if about.model is None or (source is not None and absolute_name(str(source)) != about.model):
            return None
        folder = Path(split_prompt(about.model)[0])
        files = [folder, *folder.rglob("*")] if folder.exists() else []
        # a copied or moved file keeps the time of its contents
        found = (file.stat() for file in files if file.name != STORED)
        newest = max((max(stat.st_mtime, stat.st_ctime) for stat in found), default=inf)
        return about.identity if newest < self.config.stat().st_mtime else None

    def write_calibration(self, calibration: Calibration, rows: int) -> None:
        """Store a calibration and its number of rows, if the folder is writable."""
        with suppress(OSError), new_file(self.path / _CALIBRATION) as path:
            write_json(path, {"rows": rows, **calibration.to_dict()})

    def read_calibration(self) -> tuple[Calibration, int] | None:
        """Return the stored calibration and its number of rows, if there is one."""
        path = self.path / _CALIBRATION
        if not path.exists():
            return None
        stored = check_kinds(
            {"rows": 0, **read_json(path, advice="delete it to measure again")}, path, rows=int
        )
        return Calibration.from_dict(stored, path), stored["rows"]

    def locked(self) -> FileLock:
        """Return the lock that writers hold."""
        return FileLock(self.path / _LOCK)
