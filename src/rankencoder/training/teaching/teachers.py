"""What teachers make of the training sentences, on disk: each one's vectors and reference corpus."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.io.parts import Parts, clear_parts
from rankencoder.io.storage import new_file, read_array
from rankencoder.reference import Reference
from rankencoder.training.config import TrainConfig
from rankencoder.training.sentences import Sentences
from rankencoder.training.teaching.targets import Targets

_PART = 65_536  # sentences encoded between two saves
_BATCH = 128  # sentences


def open_teacher(source: str, config: TrainConfig) -> Encoder:
    """Open a finished encoder to teach, on the device of the training."""
    return Encoder(source, device=config.torch_device, batch_size=_BATCH)


def encode_targets(
    teachers: Sequence[str], sentences: Sentences, folder: Path, config: TrainConfig, *, progress: bool
) -> None:
    """Let each teacher encode the reference corpus, the same for all, and the training sentences.

    What the folder already holds is not made again.
    """
    for i, source in enumerate(teachers):
        encoder = open_teacher(source, config)
        reference = reference_folder(folder, i)
        if not reference.exists():
            size = config.reference_size
            drawn = Reference.build(encoder, sentences, size=size, progress=progress, resume_beside=reference)
            drawn.save(reference)
        Reference.load(reference).check_encoder(encoder)
        write_table(encoder, sentences, _table(folder, i), progress=progress)


def load_targets(folder: Path) -> Targets:
    """Open what `encode_targets` wrote; the tables are mapped, not read into memory."""
    number = len(list(folder.glob("reference-*")))
    return Targets(
        [read_array(_table(folder, i), "r") for i in range(number)],
        [Reference.load(reference_folder(folder, i)).vectors for i in range(number)],
    )


def reference_folder(folder: Path, i: int = 0) -> Path:
    """Return where a teacher's reference corpus is kept."""
    return folder / f"reference-{i}"


def _table(folder: Path, i: int) -> Path:
    return folder / f"teacher-{i}.npy"


def write_table(encoder: Encoder, sentences: Sentences, file: Path, *, progress: bool) -> None:
    """Write an encoder's unit vectors of the training sentences, ``[number, dimension]`` float16, to a file.

    Finished parts are kept beside it and not encoded again.
    """
    from tqdm.auto import tqdm

    if file.exists():
        return
    key = {"encoder": encoder.fingerprint(), "sentences": sentences.sha256, "part": _PART}
    parts = Parts(file, key)
    starts = range(0, len(sentences), _PART)
    with tqdm(total=len(sentences), desc="Vectors", unit=" sentences", disable=not progress) as bar:
        for number, start in enumerate(starts):
            texts = sentences.texts(start, start + _PART)
            if not parts.is_finished(number):
                with parts.write(number) as path, path.open("wb") as out:
                    np.save(out, _encode(encoder, texts).astype(np.float16))
            bar.update(len(texts))
    shape = (len(sentences), read_array(parts.path(0)).shape[1])
    # written, not mapped: a full disk is then an error, where a mapped file would end the process
    with new_file(file) as path, path.open("wb") as out:
        header = {"descr": "<f2", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(out, header)
        for number, _ in enumerate(starts):
            out.write(read_array(parts.path(number)).tobytes())
    clear_parts(file)


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
