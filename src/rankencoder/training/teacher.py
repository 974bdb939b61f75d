"""E1's vectors of all training sentences: computed once, in half precision, in a file mapped into memory."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rankencoder.errors import InputError
from rankencoder.storage import new_file, read_json, write_json

if TYPE_CHECKING:
    from rankencoder.encoders import Encoder
    from rankencoder.training.data import Sentences

_PART = 8192


def write_teacher_vectors(encoder: Encoder, sentences: Sentences, file: Path, *, progress: bool) -> None:
    """Write a teacher's unit vectors of the training sentences, ``[number, dimension]`` float16, to a file.

    What is in the file already, of the same teacher and sentences, is not computed again.
    """
    from tqdm.auto import tqdm

    probe = encoder.probe()
    key = hashlib.sha256(sentences.sha256.encode() + probe.astype(np.float16).tobytes()).hexdigest()
    journal = file.with_suffix(".json")
    shape = (len(sentences), probe.shape[1])
    done = _done(journal, key) if file.exists() else 0
    file.parent.mkdir(parents=True, exist_ok=True)
    vectors = np.lib.format.open_memmap(
        file, mode="r+" if done else "w+", dtype=np.float16, shape=None if done else shape
    )
    if vectors.shape != shape:
        raise InputError(f"{file} is damaged: its shape is {vectors.shape}, not {shape}; delete it")
    with tqdm(
        total=len(sentences), initial=done, desc="Teacher", unit=" sentences", disable=not progress
    ) as bar:
        for start in range(done, len(sentences), _PART):
            stop = min(start + _PART, len(sentences))
            vectors[start:stop] = encoder(sentences.texts(start, stop)).cpu().numpy()
            vectors.flush()
            with new_file(journal) as path:
                write_json(path, {"key": key, "done": stop})
            bar.update(stop - start)


def _done(journal: Path, key: str) -> int:
    """Return how many rows of the file hold this teacher's vectors of these sentences."""
    try:
        about = read_json(journal)
    except InputError:
        return 0
    return int(about["done"]) if about.get("key") == key else 0
