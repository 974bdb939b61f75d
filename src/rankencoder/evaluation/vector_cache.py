"""Cache vectors on disk: no sentence is encoded twice, not even by the next evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from rankencoder.encoders import Encoder
from rankencoder.io.stored_vectors import StoredVectors, sentence_key
from rankencoder.progress import Progress

if TYPE_CHECKING:
    import torch

    from rankencoder.backends.backend import Backend

_PART = 4096  # sentences that are encoded and stored at a time


class CachedEncoder(Encoder):
    """An encoder that caches its vectors in a folder; without one, in a temporary folder."""

    def __init__(self, encoder: Encoder, folder: Path | None) -> None:
        self.__dict__.update(vars(encoder))
        self._encoder = encoder
        self._fingerprint = encoder.fingerprint()
        if folder is None:
            self._temporary = TemporaryDirectory(prefix="rankencoder-")
            folder = Path(self._temporary.name)
        self._stored = StoredVectors(folder / self._fingerprint[:16])

    @property
    def device(self) -> torch.device:
        """The device of the encoder."""
        return self._encoder.device

    @property
    def backend(self) -> Backend:
        """The backend of the encoder."""
        return self._encoder.backend

    def fingerprint(self) -> str:
        """Return the digest of the encoder."""
        return self._fingerprint

    def raw(self, sentences: Sequence[str], *, progress: bool = False) -> torch.Tensor:
        """Return the vectors of sentences; encode those that are not cached."""
        import torch

        if not sentences:
            return self._encoder.raw([])
        keys = [sentence_key(sentence) for sentence in sentences]
        texts = dict(zip(keys, sentences, strict=True))
        found = self._stored.read(texts)
        missing = sorted(texts.keys() - found.keys(), key=lambda key: texts[key])
        with Progress(len(texts), desc="Encoding", initial=len(found), show=progress) as bar:
            for start in range(0, len(missing), _PART):
                part = missing[start : start + _PART]
                rows = self.encode_now([texts[key] for key in part]).cpu().numpy()
                self._stored.add(part, rows)
                found |= zip(part, rows, strict=True)
                bar.update(len(part))
        stacked = np.stack([found[key] for key in keys])
        self.dimension = stacked.shape[1]
        return torch.from_numpy(stacked).to(self.device)

    def encode_now(self, sentences: Sequence[str]) -> torch.Tensor:
        """Encode sentences without the cache, to time it."""
        return self._encoder.raw(sentences)
