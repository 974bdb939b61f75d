"""Store the vectors of the training sentences by each teacher."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch

from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.io.manifest import check_manifest, write_manifest
from rankencoder.io.parts import Parts, clear_parts, join_vectors
from rankencoder.io.storage import new_folder, read_array
from rankencoder.model import RankEncoder
from rankencoder.progress import Progress
from rankencoder.reference import Reference
from rankencoder.training.backbones.backbone import BERT_LIKE
from rankencoder.training.sentences import Sentences

BATCH = 128  # sentences
_PART = 131_072  # sentences encoded between two saves: a GPU waits for the first 8,192 to be tokenized
_CPU_PART = 1024  # the same for a transformer on a CPU
_VECTORS = "vectors.npy"


class VectorSource(Protocol):
    """A source of a vector for each training sentence: an encoder, or a file of vectors."""

    @property
    def dimension(self) -> int:
        """Dimensions of the vectors."""

    @property
    def part(self) -> int:
        """Sentences to encode between two saves."""

    def fingerprint(self) -> str:
        """Return a digest of what the vectors depend on."""

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Return the unit vectors of the sentences from one row up to another."""


class EncodedSentences:
    """Vectors of the training sentences by an encoder, on a GPU in half precision.

    BERT and its relatives get float16 weights. Other models, and those that overflow, run under autocast: in
    float16, else in bfloat16.
    """

    def __init__(self, encoder: Encoder | RankEncoder, sentences: Sentences) -> None:
        self.encoder, self.sentences = encoder, sentences
        self.dimension = encoder.dimension
        self._own = encoder.encoder if isinstance(encoder, RankEncoder) else encoder
        slow = self._own.model is not None and self._own.device.type == "cpu"
        self.part = min(_PART, _CPU_PART) if slow else _PART
        self._ways: list[str | torch.dtype] = []
        if self._own.device.type == "cuda" and getattr(self._own.model, "dtype", None) == torch.float32:
            config = getattr(cast(Any, self._own.model)[0], "config", None)
            # others may clamp what overflows, or have angles that are too coarse in float16
            weights = ["weights"] if getattr(config, "model_type", None) in BERT_LIKE else []
            self._ways = [*weights, torch.float16, torch.bfloat16]

    def fingerprint(self) -> str:
        """Return a digest of what the vectors depend on."""
        return self.encoder.fingerprint()

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Return the unit vectors of the sentences from one row up to another."""
        texts = self.sentences.texts(start, stop)
        for way in self._ways:  # anew for each part, so that a resumed run computes the same
            with suppress(InputError), self._computing_in(way):
                return self.encoder.encode(texts)
        return self.encoder.encode(texts)

    @contextmanager
    def _computing_in(self, way: str | torch.dtype) -> Iterator[None]:
        """Let the encoder have weights in float16, or compute products in half precision."""
        if isinstance(way, torch.dtype):
            with torch.autocast("cuda", way):
                yield
            return
        model = self._own.model
        self._own.model = self._float16
        try:
            yield
        finally:
            self._own.model = model

    @cached_property
    def _float16(self) -> Any:
        return copy.deepcopy(cast(Any, self._own.model)).half()


def is_whole(folder: Path) -> bool:
    """Return whether a folder exists with all files as they were written."""
    try:
        return check_manifest(folder)
    except InputError:
        return False


def load_vectors(folder: Path) -> np.ndarray:
    """Open the vectors that `write_vectors` wrote."""
    return read_array(folder / _VECTORS, "r")


def write_vectors(
    source: VectorSource,
    sentences: Sentences,
    folder: Path,
    *,
    reference: Reference | None = None,
    progress: bool,
    title: str = "Vectors",
) -> None:
    """Write unit vectors of the training sentences to a folder: ``[n, dimension]``, float16.

    Finished parts are kept beside it, so that an interrupted call resumes.

    :param reference: A reference corpus to write with them.
    :param title: Title of the progress bar.
    """
    key = {"encoder": source.fingerprint(), "sentences": sentences.sha256, "part": source.part}
    parts = Parts(folder, key)
    starts = range(0, len(sentences), source.part)

    def write(number: int, rows: np.ndarray) -> None:
        with parts.write(number) as path:
            rows.astype("<f2").tofile(path)

    written: Future[None] | None = None
    with (
        Progress(len(sentences), desc=title, faster="less text", show=progress) as bar,
        ThreadPoolExecutor(1) as writer,  # the next part is encoded meanwhile
    ):
        for number, start in enumerate(starts):
            stop = min(start + source.part, len(sentences))
            if not parts.is_finished(number):
                rows = source.rows(start, stop)
                if written is not None:
                    written.result()
                written = writer.submit(write, number, rows)
                del rows
            bar.update(stop - start)
        if written is not None:
            written.result()
    shutil.rmtree(folder, ignore_errors=True)  # a damaged one
    with new_folder(folder) as new:
        if reference is not None:
            reference.write(new)
        paths = [parts.path(number) for number, _ in enumerate(starts)]
        join_vectors(paths, new / _VECTORS, "<f2", source.dimension)
        write_manifest(new)
    clear_parts(folder)
