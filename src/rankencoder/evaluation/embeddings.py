"""An encoder that remembers: no sentence is encoded twice, not even by the next evaluation."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.fingerprints import digest as digest
from rankencoder.io.storage import new_file, read_tensors, user_cache, write_tensors

if TYPE_CHECKING:
    import torch

_PART = 4096  # sentences that are encoded and stored at a time


def cache_folder() -> Path:
    """Return where vectors are kept: ``RANKENCODER_CACHE``, or in the user's cache folder."""
    if given := os.environ.get("RANKENCODER_CACHE"):
        return Path(given)
    return user_cache() / "vectors"


class CachedEncoder(Encoder):
    """An encoder whose vectors are kept in memory and, given a folder, on disk, by content.

    The name of a stored file is a hash of encoder and sentences: another encoder, other settings of the same
    one or other sentences are other files. A damaged file is made again.

    :param encoder: The encoder.
    :param folder: Where vectors are kept; None for memory alone.
    """

    def __init__(self, encoder: Encoder, folder: Path | None) -> None:
        self.__dict__.update(vars(encoder))
        self._fingerprint = encoder.fingerprint()
        self._folder = folder
        self._memory: dict[str, np.ndarray] = {}

    def raw(self, sentences: Sequence[str], *, progress: bool = False) -> torch.Tensor:
        """Return the vectors of sentences, encoding those that never were."""
        import torch
        from tqdm.auto import tqdm

        distinct = sorted(set(sentences))
        if not distinct:
            return super().raw([])
        place = {sentence: i for i, sentence in enumerate(distinct)}
        parts = [distinct[start : start + _PART] for start in range(0, len(distinct), _PART)]
        found = []
        with tqdm(total=len(distinct), desc="Encoding", unit=" sentences", disable=not progress) as bar:
            for part in parts:
                found.append(self._part(part))
                bar.update(len(part))
        rows = np.concatenate(found)[[place[sentence] for sentence in sentences]]
        self.dimension = rows.shape[1]
        return torch.from_numpy(rows).to(self.device)

    def fingerprint(self) -> str:
        """Return the digest of the encoder, which is not computed again."""
        return self._fingerprint

    def encode_now(self, sentences: Sequence[str]) -> torch.Tensor:
        """Return the vectors of sentences as if none were stored, to see how long that takes."""
        return super().raw(sentences)

    def remember(self, key: str, rows: int, make: Callable[[], np.ndarray]) -> np.ndarray:
        """Return an array of this many rows that was made before under a key, or make it now."""
        if key in self._memory:
            return self._memory[key]
        path = self._folder / self._fingerprint[:16] / f"{key[:32]}.safetensors" if self._folder else None
        try:
            found = _whole(read_tensors(path)) if path else None
        except (InputError, KeyError, OSError):  # not there yet, or not whole
            found = None
        if found is None or not _is_whole(found, rows):
            found = make()
            if path is not None:
                with new_file(path) as new:
                    write_tensors(new, {"array": found, "sha256": _seal(found)})
        self._memory[key] = found
        return found

    def _part(self, sentences: list[str]) -> np.ndarray:
        encode = super().raw
        key = digest((self._fingerprint, *sentences))
        found = self.remember(key, len(sentences), lambda: encode(sentences).cpu().numpy())
        if found.ndim != 2 or found.dtype != np.float32:
            raise InputError(f"the vectors kept in {self._folder} are damaged: delete that folder")
        return found


def _is_whole(found: np.ndarray, rows: int) -> bool:
    """Say whether a stored array can be what was stored: numbers, in so many rows."""
    of_numbers = found.dtype.kind == "f" and found.size > 0 and bool(np.isfinite(found).all())
    return of_numbers and found.ndim in (1, 2) and len(found) == rows


def _seal(array: np.ndarray) -> np.ndarray:
    return np.frombuffer(hashlib.sha256(np.ascontiguousarray(array).data).digest(), dtype=np.uint8)


def _whole(stored: dict[str, np.ndarray]) -> np.ndarray | None:
    """Return a stored array, unless it is no longer what was stored; earlier versions did not seal theirs."""
    array = stored["array"]
    return array if np.array_equal(stored.get("sha256", seal := _seal(array)), seal) else None
