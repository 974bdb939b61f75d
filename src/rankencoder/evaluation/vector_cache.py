"""An encoder that keeps its vectors: no sentence is encoded twice, not even by the next evaluation."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rankencoder.encoders import Encoder
from rankencoder.io.storage import new_file

if TYPE_CHECKING:
    import torch

_PART = 4096  # sentences that are encoded and stored at a time


class CachedEncoder(Encoder):
    """An encoder whose vectors are kept in memory and, given a folder, on disk."""

    def __init__(self, encoder: Encoder, folder: Path | None) -> None:
        self.__dict__.update(vars(encoder))
        self._fingerprint = encoder.fingerprint()
        self._folder = folder / self._fingerprint[:16] if folder else None
        self._vectors = _read(self._folder) if self._folder else {}

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
        missing = sorted(texts.keys() - self._vectors.keys(), key=lambda key: texts[key])
        with tqdm(total=len(texts), desc="Encoding", unit=" sentences", disable=not progress) as bar:
            bar.update(len(texts) - len(missing))
            for start in range(0, len(missing), _PART):
                part = missing[start : start + _PART]
                rows = self.encode_now([texts[key] for key in part]).cpu().numpy()
                if self._folder is not None:
                    _write(self._folder, part, rows)
                self._vectors |= zip(part, rows, strict=True)
                bar.update(len(part))
        found = np.stack([self._vectors[key] for key in keys])
        self.dimension = found.shape[1]
        return torch.from_numpy(found).to(self.device)

    def encode_now(self, sentences: Sequence[str]) -> torch.Tensor:
        """Return the vectors of sentences as if none were stored, to see how long that takes."""
        return super().raw(sentences)


def _key(sentence: str) -> bytes:
    return hashlib.sha256(sentence.encode("utf-8", "surrogatepass")).digest()[:16]


def _write(folder: Path, keys: Sequence[bytes], rows: np.ndarray) -> None:
    """Add a file of vectors, named by its digest: several processes can share the folder."""
    from safetensors.numpy import save

    array = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), -1)
    data = save({"keys": array, "vectors": np.ascontiguousarray(rows)})
    with new_file(folder / f"{hashlib.sha256(data).hexdigest()}.safetensors") as new:
        new.write_bytes(data)


def _read(folder: Path) -> dict[bytes, np.ndarray]:
    """Return the stored vectors by key; a damaged file is deleted, and its sentences are encoded again."""
    from safetensors.numpy import load

    found: dict[bytes, np.ndarray] = {}
    for file in folder.glob("*.safetensors"):
        data = file.read_bytes()
        if hashlib.sha256(data).hexdigest() != file.stem:
            file.unlink(missing_ok=True)
            continue
        stored = load(data)
        found |= {key.tobytes(): row for key, row in zip(stored["keys"], stored["vectors"], strict=True)}
    return found
