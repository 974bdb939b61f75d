"""Vectors of all sentences in ``work``: of each teacher, and of the encoder whose layers are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rankencoder.distillation.agreement import measure_speed, megabytes
from rankencoder.distillation.distill_config import DistillConfig
from rankencoder.distillation.student_sources import load_student
from rankencoder.distillation.teacher_sources import is_file, open_teacher, open_vectors
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.io.storage import new_file, read_json, write_json
from rankencoder.training.sentences import Sentences
from rankencoder.training.teaching.teachers import (
    BATCH,
    EncodedSentences,
    VectorSource,
    is_whole,
    load_vectors,
    write_vectors,
)

_ABOUT, _VECTORS = "about.json", "vectors"


@dataclass
class SentenceVectors:
    """Makes vectors of all sentences; what is there already is not made again.

    :param objects: The teachers that are Python objects, by their places.
    """

    config: DistillConfig
    work: Path
    objects: dict[int, Any]
    progress: bool

    def about(self, number: int) -> dict[str, Any]:
        """Return what is known of a teacher: name, dimension, fingerprint, and speed where it has one."""
        return read_json(self._place(number) / _ABOUT)

    @cached_property
    def encoded(self) -> set[int]:
        """The teachers whose vectors are there."""
        places = {number: self._place(number) for number in range(len(self.config.teacher))}
        return {n for n, place in places.items() if is_whole(place / _VECTORS) and _fingerprint(place)}

    def teacher(self, number: int, sentences: Sentences, timed: Sequence[str]) -> np.ndarray:
        """Return a teacher's vectors.

        :param timed: Sentences to measure its speed on.
        """
        name, folder = self.config.teacher[number], self._place(number)
        if number not in self.encoded:
            about: dict[str, Any] = {"name": name}
            source: VectorSource
            if is_file(name):
                source = open_vectors(name, sentences)
            else:
                opened = open_teacher(name, self.objects.get(number), self.config)
                source = EncodedSentences(opened, sentences)
                own = getattr(opened, "encoder", opened)
                if isinstance(own, Encoder) and own.model is not None:
                    about["megabytes"] = megabytes(own.model)
                    about["sentences_per_second"] = measure_speed(own, timed)
            about |= {"dimension": source.dimension, "fingerprint": source.fingerprint()}
            _write_about(folder, about)
            title = f"Teacher {number + 1} of {len(self.config.teacher)}"
            write_vectors(source, sentences, folder / _VECTORS, progress=self.progress, title=title)
            self.encoded.add(number)
        return load_vectors(folder / _VECTORS)

    @property
    def origin_folder(self) -> Path | None:
        """Where the vectors of the encoder whose layers are kept are; a teacher may have the same."""
        own = _fingerprint(self.work / "origin")
        same = [place for place in map(self._place, self.encoded) if _fingerprint(place) == own]
        return next((p / _VECTORS for p in (*same, self.work / "origin") if is_whole(p / _VECTORS)), None)

    def origin(self, sentences: Sentences) -> np.ndarray:
        """Return the vectors of the encoder whose layers are kept."""
        folder = self.origin_folder
        if folder is None:
            folder = self.work / "origin" / _VECTORS
            whole = EncodedSentences(Encoder(load_student(self.config), batch_size=BATCH), sentences)
            write_vectors(whole, sentences, folder, progress=self.progress, title="Whole student")
        return load_vectors(folder)

    def _place(self, number: int) -> Path:
        return self.work / "teachers" / str(number)


def describe_origin(work: Path, encoder: Encoder) -> None:
    """Write down which encoder's layers are kept, so that it is loaded no more if it teaches as well."""
    _write_about(work / "origin", {"fingerprint": encoder.fingerprint()})


def _write_about(folder: Path, about: dict[str, Any]) -> None:
    with new_file(folder / _ABOUT) as path:
        write_json(path, about)


def _fingerprint(folder: Path) -> str | None:
    """Return the fingerprint of the encoder whose vectors a folder is for, if it was written down."""
    try:
        return str(read_json(folder / _ABOUT)["fingerprint"])
    except (InputError, KeyError):
        return None
