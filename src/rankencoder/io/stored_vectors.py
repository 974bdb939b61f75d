"""A cache of vectors on disk, by sentence."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, KeysView, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from rankencoder.io.storage import new_file


def sentence_key(sentence: str) -> bytes:
    """Return the cache key of a sentence: a digest."""
    return hashlib.sha256(sentence.encode("utf-8", "surrogatepass")).digest()[:16]


class StoredVectors:
    """The cached vectors of one encoder, in a folder; memory holds only their keys.

    Files are named by their digest and never changed, so processes can share the folder. A damaged file is
    deleted, and its sentences are encoded again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._places: dict[bytes, tuple[Path, int]] = {}
        for file in folder.glob(f"{'?' * 64}.safetensors"):  # earlier versions had shorter names
            with suppress(FileNotFoundError, PermissionError):  # another process was faster
                if hashlib.sha256(file.read_bytes()).hexdigest() == file.stem:
                    self._index(file)
                else:
                    file.unlink()

    def keys(self) -> KeysView[bytes]:
        """Return the keys of all stored vectors."""
        return self._places.keys()

    def read(self, keys: Iterable[bytes]) -> dict[bytes, np.ndarray]:
        """Return the stored vectors among these keys."""
        from safetensors.numpy import load_file

        wanted: dict[Path, list[bytes]] = {}
        for key in keys:
            if key in self._places:
                wanted.setdefault(self._places[key][0], []).append(key)
        found: dict[bytes, np.ndarray] = {}
        for file, some in wanted.items():
            with suppress(FileNotFoundError):
                rows = load_file(file)["vectors"]
                found |= {key: rows[self._places[key][1]].copy() for key in some}
        return found

    def add(self, keys: Sequence[bytes], rows: np.ndarray) -> None:
        """Store one vector per key."""
        from safetensors.numpy import save

        array = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), -1)
        data = save({"keys": array, "vectors": np.ascontiguousarray(rows)})
        file = self.folder / f"{hashlib.sha256(data).hexdigest()}.safetensors"
        with new_file(file) as new:
            new.write_bytes(data)
        self._index(file)

    def _index(self, file: Path) -> None:
        from safetensors import safe_open

        with safe_open(file, framework="numpy") as stored:
            keys = stored.get_tensor("keys")
        self._places |= {key.tobytes(): (file, row) for row, key in enumerate(keys)}
