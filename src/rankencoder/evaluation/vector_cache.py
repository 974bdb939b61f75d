"""An encoder that keeps its vectors: no sentence is encoded twice, not even by the next evaluation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rankencoder.encoders import Encoder
from rankencoder.io.storage import new_file, write_tensors

if TYPE_CHECKING:
    import torch

_PART = 4096  # sentences that are encoded and stored at a time
_KEY = 16  # bytes of the digest of a sentence
_MEMORY = 2**29  # bytes of vectors in memory


class CachedEncoder(Encoder):
    """An encoder whose vectors are kept in memory, up to 512 MiB, and, given a folder, on disk."""

    def __init__(self, encoder: Encoder, folder: Path | None) -> None:
        self.__dict__.update(vars(encoder))
        self._fingerprint = encoder.fingerprint()
        self._memory: dict[bytes, np.ndarray] = {}
        self._disk = StoredVectors(folder / self._fingerprint[:16]) if folder else None

    def fingerprint(self) -> str:
        """Return the digest of the encoder."""
        return self._fingerprint

    def raw(self, sentences: Sequence[str], *, progress: bool = False) -> torch.Tensor:
        """Return the vectors of sentences, encoding those that never were."""
        import torch
        from tqdm.auto import tqdm

        if not sentences:
            return super().raw([])
        keys = [_key(sentence) for sentence in sentences]
        texts = dict(zip(keys, sentences, strict=True))
        found = {key: self._memory[key] for key in texts if key in self._memory}
        if self._disk is not None:
            found |= self._disk.read(texts.keys() - found.keys())
        missing = sorted(texts.keys() - found.keys(), key=lambda key: texts[key])
        with tqdm(total=len(texts), desc="Encoding", unit=" sentences", disable=not progress) as bar:
            bar.update(len(found))
            for start in range(0, len(missing), _PART):
                part = missing[start : start + _PART]
                rows = self.encode_now([texts[key] for key in part]).cpu().numpy()
                if self._disk is not None:
                    self._disk.add(part, rows)
                found |= zip(part, rows, strict=True)
                bar.update(len(part))
        self._remember(found)
        rows = np.stack([found[key] for key in keys])
        self.dimension = rows.shape[1]
        return torch.from_numpy(rows).to(self.device)

    def encode_now(self, sentences: Sequence[str]) -> torch.Tensor:
        """Return the vectors of sentences as if none were stored, to see how long that takes."""
        return super().raw(sentences)

    def _remember(self, found: dict[bytes, np.ndarray]) -> None:
        """Keep vectors in memory, and drop those that were not asked for the longest."""
        for key, row in found.items():
            self._memory[key] = self._memory.pop(key) if key in self._memory else row.copy()
        most = _MEMORY // next(iter(found.values())).nbytes
        for key in list(self._memory)[: max(0, len(self._memory) - most)]:
            del self._memory[key]


class StoredVectors:
    """The vectors of one encoder on disk, by sentence.

    A file holds digests of sentences and their vectors. Files are added and never changed, so several
    processes can share the folder. A damaged file is deleted; its sentences are encoded again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._places: dict[bytes, Path] = {}
        self._indexed: set[Path] = set()

    def read(self, keys: Iterable[bytes]) -> dict[bytes, np.ndarray]:
        """Return the vectors that are stored, by key."""
        for file in sorted(set(self.folder.glob("*.safetensors")) - self._indexed):
            self._indexed.add(file)
            keys_of_file = _load(file, "keys").get("keys")
            if keys_of_file is not None and keys_of_file.ndim == 2:
                self._places |= {key.tobytes(): file for key in keys_of_file}
        wanted: dict[Path, set[bytes]] = {}
        for key in keys:
            if key in self._places:
                wanted.setdefault(self._places[key], set()).add(key)
        found: dict[bytes, np.ndarray] = {}
        for file, some in wanted.items():
            stored = _vectors(file)
            found |= {key: stored[key] for key in some & stored.keys()}
        return found

    def add(self, keys: Sequence[bytes], rows: np.ndarray) -> None:
        """Store vectors, one a key."""
        array = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, _KEY)
        file = self.folder / f"{hashlib.sha256(array.data).hexdigest()[:32]}.safetensors"
        with new_file(file) as new:
            write_tensors(new, {"keys": array, "vectors": rows, "sha256": _seal(array, rows)})


def _key(sentence: str) -> bytes:
    return hashlib.sha256(sentence.encode("utf-8", "surrogatepass")).digest()[:_KEY]


def _seal(keys: np.ndarray, rows: np.ndarray) -> np.ndarray:
    digest = hashlib.sha256(np.ascontiguousarray(keys).data)
    digest.update(np.ascontiguousarray(rows).data)
    return np.frombuffer(digest.digest(), dtype=np.uint8)


def _vectors(file: Path) -> dict[bytes, np.ndarray]:
    """Return the vectors of a file by key; none, and no file, where it is damaged."""
    stored = _load(file, "keys", "vectors", "sha256")
    if not stored:
        return {}
    keys, rows = stored["keys"], stored["vectors"]
    is_whole = rows.ndim == 2 and keys.shape == (len(rows), _KEY) and rows.dtype == np.float32
    if not is_whole or not np.array_equal(stored["sha256"], _seal(keys, rows)):
        file.unlink(missing_ok=True)
        return {}
    return {key.tobytes(): row for key, row in zip(keys, rows, strict=True)}


def _load(file: Path, *names: str) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy") as stored:
            return {name: stored.get_tensor(name) for name in names}
    except FileNotFoundError:  # another process deleted it
        return {}
    except (SafetensorError, AttributeError, TypeError, ValueError):
        file.unlink(missing_ok=True)
        return {}
