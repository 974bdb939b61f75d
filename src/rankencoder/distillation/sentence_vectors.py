"""Store the vectors of all training sentences by each teacher in ``work``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankencoder.distillation.agreement import measure_speed, megabytes
from rankencoder.distillation.distill_config import DistillConfig
from rankencoder.distillation.student_sources import load_student
from rankencoder.distillation.teacher_sources import is_file, open_teacher, open_vectors
from rankencoder.encoders import Encoder
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

    def teacher(self, number: int, sentences: Sentences, timed: Sequence[str]) -> np.ndarray:
        """Return a teacher's vectors.

        :param timed: Sentences to measure its speed on.
        """
        name, folder = self.config.teacher[number], self._place(number)
        if not is_whole(folder / _VECTORS):
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
            with new_file(folder / _ABOUT) as path:
                write_json(path, about)
            title = f"Teacher {number + 1} of {len(self.config.teacher)}"
            write_vectors(source, sentences, folder / _VECTORS, progress=self.progress, title=title)
        return load_vectors(folder / _VECTORS)

    def origin(self, sentences: Sentences) -> np.ndarray:
        """Return the vectors of the encoder whose layers are kept, which may be a teacher."""
        whole = Encoder(load_student(self.config), batch_size=BATCH)
        for number, _ in enumerate(self.config.teacher):
            if self.about(number)["fingerprint"] == whole.fingerprint():
                return load_vectors(self._place(number) / _VECTORS)
        folder = self.work / "origin"
        if not is_whole(folder):
            source = EncodedSentences(whole, sentences)
            write_vectors(source, sentences, folder, progress=self.progress, title="Whole student")
        return load_vectors(folder)

    def _place(self, number: int) -> Path:
        return self.work / "teachers" / str(number)
