"""What teachers make of the training sentences, on disk: each one's vectors and reference corpus."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.io.manifest import check_manifest, write_manifest
from rankencoder.io.parts import Parts, clear_parts, join_vectors
from rankencoder.io.storage import new_folder, read_array
from rankencoder.reference import Reference
from rankencoder.training.sentences import Sentences
from rankencoder.training.teaching.targets import Targets

BATCH = 128  # sentences
_PART = 65_536  # sentences encoded between two saves
_VECTORS = "vectors.npy"


def encode_teacher(
    source: str, sentences: Sentences, folder: Path, *, references: int, device: str | None, progress: bool
) -> None:
    """Let a teacher encode the training sentences, and a reference corpus drawn from them: the same for all.

    A folder that is whole stays as it is.
    """
    if is_whole(folder):
        return
    encoder = Encoder(source, device=device, batch_size=BATCH)
    beside = folder.with_name(f"{folder.name}-reference")
    reference = Reference.build(encoder, sentences, size=references, progress=progress, resume_beside=beside)
    write_vectors(encoder, sentences, folder, reference=reference, progress=progress)


def load_targets(folders: Sequence[Path]) -> Targets:
    """Open what teachers wrote; their vectors are mapped, not read into memory."""
    return Targets(list(map(load_vectors, folders)), [Reference.load(folder).vectors for folder in folders])


def is_whole(folder: Path) -> bool:
    """Return whether a folder is there, with all files as they were written."""
    try:
        return check_manifest(folder)
    except InputError:
        return False


def load_vectors(folder: Path) -> np.ndarray:
    """Open the vectors that `write_vectors` wrote."""
    return read_array(folder / _VECTORS, "r")


def write_vectors(
    encoder: Encoder,
    sentences: Sentences,
    folder: Path,
    *,
    reference: Reference | None = None,
    progress: bool,
) -> None:
    """Write an encoder's unit vectors of the training sentences to a folder: ``[n, dimension]``, float16.

    Finished parts are kept beside it and not encoded again.

    :param reference: A reference corpus to write beside them.
    """
    from tqdm.auto import tqdm

    key = {"encoder": encoder.fingerprint(), "sentences": sentences.sha256, "part": _PART}
    parts = Parts(folder, key)
    starts = range(0, len(sentences), _PART)
    with tqdm(total=len(sentences), desc="Vectors", unit=" sentences", disable=not progress) as bar:
        for number, start in enumerate(starts):
            texts = sentences.texts(start, start + _PART)
            if not parts.is_finished(number):
                with parts.write(number) as path:
                    _encode(encoder, texts).astype("<f2").tofile(path)
            bar.update(len(texts))
    shutil.rmtree(folder, ignore_errors=True)  # it is damaged
    with new_folder(folder) as new:
        if reference is not None:
            reference.write(new)
        paths = [parts.path(number) for number, _ in enumerate(starts)]
        join_vectors(paths, new / _VECTORS, "<f2", encoder.dimension)
        write_manifest(new)
    clear_parts(folder)


def _encode(encoder: Encoder, texts: list[str]) -> np.ndarray:
    """Encode in half precision where a GPU is fast at it and the encoder stays finite."""
    import torch

    half = encoder.device.type == "cuda" and getattr(encoder.model, "dtype", None) == torch.float32
    try:
        with torch.autocast("cuda", torch.float16, enabled=half):
            return np.asarray(encoder(texts).cpu().numpy())
    except InputError:
        if not half:
            raise
        return np.asarray(encoder(texts).cpu().numpy())  # some values are too large for half precision
