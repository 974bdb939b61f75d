"""What the teachers of stage 2 say, on disk: vectors of the training sentences and of the reference corpus.

Vectors of training sentences are computed once, in half precision, in a file that is mapped into memory.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rankencoder.errors import InputError
from rankencoder.io.storage import (
    check_kinds,
    new_file,
    read_array,
    read_json,
    write_errors_named,
    write_json,
)

if TYPE_CHECKING:
    from rankencoder.encoders import Encoder
    from rankencoder.reference import Reference
    from rankencoder.training.config import TrainConfig
    from rankencoder.training.sentences import Sentences
    from rankencoder.training.teaching.targets import Targets

_PART = 65_536  # sentences between two entries of the journal
_BATCH = 128  # sentences


def load_encoder(name: str, config: TrainConfig) -> Encoder:
    """Return a finished encoder."""
    from rankencoder.encoders import Encoder

    return Encoder(name, device=config.torch_device, batch_size=_BATCH)


def make_targets(
    teachers: Sequence[str], sentences: Sentences, folder: Path, config: TrainConfig, *, progress: bool
) -> None:
    """Draw the reference corpus; let each teacher encode it, and all training sentences.

    All draw the same reference sentences. What is in the folder already is not made again.
    """
    for i, name in enumerate(teachers):
        encoder = load_encoder(name, config)
        reference = reference_folder(folder, i)
        if not reference.exists():
            drawn = draw_reference(encoder, sentences, config.reference_size, reference, progress=progress)
            drawn.save(reference)
        _load(reference).check_encoder(encoder)
        write_vectors(encoder, sentences, _table(folder, i), progress=progress)


def load_targets(folder: Path) -> Targets:
    """Open what `make_targets` made."""
    from rankencoder.training.teaching.targets import Targets

    number = len(list(folder.glob("reference-*")))
    tables = [read_array(_table(folder, i), "r") for i in range(number)]
    return Targets(tables, [_load(reference_folder(folder, i)).vectors for i in range(number)])


def clear_targets(folder: Path) -> None:
    """Delete what is large."""
    for file in folder.glob("teacher-*"):
        file.unlink(missing_ok=True)


def draw_reference(
    encoder: Encoder, texts: Iterable[str], size: int, beside: Path, *, progress: bool
) -> Reference:
    """Draw reference sentences and encode them; begun work is kept beside a folder."""
    from rankencoder.reference import Reference

    return Reference.build(encoder, texts, size=size, progress=progress, resume_beside=beside)


def reference_folder(folder: Path, i: int = 0) -> Path:
    """Return where a teacher's reference corpus is kept."""
    return folder / f"reference-{i}"


def _load(folder: Path) -> Reference:
    from rankencoder.reference import Reference

    return Reference.load(folder)


def _table(folder: Path, i: int) -> Path:
    return folder / f"teacher-{i}.npy"


def write_vectors(encoder: Encoder, sentences: Sentences, file: Path, *, progress: bool) -> None:
    """Write an encoder's unit vectors of the training sentences, ``[number, dimension]`` float16, to a file.

    What is in the file already, of the same encoder and sentences, is not computed again.
    """
    from tqdm.auto import tqdm

    probe = encoder.probe()
    key = hashlib.sha256(sentences.sha256.encode() + probe.astype(np.float16).tobytes()).hexdigest()
    journal = file.with_suffix(".json")
    shape = (len(sentences), probe.shape[1])
    vectors = _opened(file, shape) if file.exists() else None
    digests = [] if vectors is None else _finished(journal, key, vectors)
    if vectors is None or not digests:
        vectors = _new_table(file, shape)
    done = min(len(digests) * _PART, len(sentences))
    with tqdm(
        total=len(sentences), initial=done, desc="Vectors", unit=" sentences", disable=not progress
    ) as bar:
        for start in range(done, len(sentences), _PART):
            stop = min(start + _PART, len(sentences))
            vectors[start:stop] = _encoded(encoder, sentences.texts(start, stop))
            vectors.flush()
            digests.append(_digest(vectors[start:stop]))
            with new_file(journal) as path:
                write_json(path, {"key": key, "part": _PART, "sha256": digests})
            bar.update(stop - start)


def _opened(file: Path, shape: tuple[int, int]) -> np.memmap | None:
    """Open a begun table; None if it is damaged."""
    try:
        found = read_array(file, "r")  # "r+" would fill up with zeros what is too short
    except InputError:
        return None
    if found.shape != shape or found.dtype != np.float16:
        return None
    return np.lib.format.open_memmap(file, mode="r+")


def _new_table(file: Path, shape: tuple[int, int]) -> np.memmap:
    """Make a table, with room on the disk: without, writing to what is mapped would end the process."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with write_errors_named(file):
        vectors = np.lib.format.open_memmap(file, mode="w+", dtype=np.float16, shape=shape)
        if hasattr(os, "posix_fallocate"):
            with open(file, "r+b") as opened:
                os.posix_fallocate(opened.fileno(), 0, file.stat().st_size)
    return vectors


def _encoded(encoder: Encoder, texts: list[str]) -> np.ndarray:
    """Encode in half precision where a GPU is fast at it and the encoder bears it."""
    import torch

    half = encoder.device.type == "cuda" and getattr(encoder.model, "dtype", None) == torch.float32
    try:
        with torch.autocast("cuda", torch.float16, enabled=half):
            return np.asarray(encoder(texts).cpu().numpy())
    except InputError:
        if not half:
            raise
        return np.asarray(encoder(texts).cpu().numpy())  # some numbers may be too large for half precision


def _finished(journal: Path, key: str, vectors: np.ndarray) -> list[str]:
    """Return the digests of the table's first parts that hold this teacher's vectors of these sentences."""
    try:
        about = check_kinds(read_json(journal), journal, key=str, part=int, sha256=list)
    except InputError:
        return []
    if (about["key"], about["part"]) != (key, _PART):
        return []
    starts = range(0, len(vectors), _PART)
    parts = zip(about["sha256"], starts, strict=False)
    whole = takewhile(lambda part: part[0] == _digest(vectors[part[1] : part[1] + _PART]), parts)
    return [digest for digest, _ in whole]


def _digest(part: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(part).data).hexdigest()
