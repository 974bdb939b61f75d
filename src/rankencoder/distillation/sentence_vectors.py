"""Store each teacher's vectors of all training sentences, and collate batches with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from rankencoder.distillation.agreement import measure_speed, megabytes
from rankencoder.distillation.distill_config import DistillConfig
from rankencoder.distillation.student_sources import load_student
from rankencoder.distillation.teacher_sources import is_file, open_teacher
from rankencoder.distillation.vector_file import VectorFile
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
    """Vectors of all training sentences by each teacher; finished ones are reused.

    :param objects: Teachers that are Python objects, by position.
    """

    config: DistillConfig
    work: Path
    objects: dict[int, Any]
    progress: bool

    def about(self, number: int) -> dict[str, Any]:
        """Return a teacher's name, dimension, fingerprint, and its speed if it runs here."""
        return read_json(self._place(number) / _ABOUT)

    def teacher(self, number: int, sentences: Sentences, timed: Sequence[str]) -> np.ndarray:
        """Return a teacher's vectors.

        :param timed: Sentences for measuring its speed.
        """
        name, folder = self.config.teacher[number], self._place(number)
        if not is_whole(folder / _VECTORS):
            about: dict[str, Any] = {"name": name}
            source: VectorSource
            if is_file(name):
                source = VectorFile(name, sentences)
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
        """Return the vectors of the encoder that gives the student its layers; it may be a teacher."""
        whole = Encoder(load_student(self.config), batch_size=BATCH)
        for number in range(len(self.config.teacher)):
            if self.about(number)["fingerprint"] == whole.fingerprint():
                return load_vectors(self._place(number) / _VECTORS)
        folder = self.work / "origin"
        if not is_whole(folder):
            source = EncodedSentences(whole, sentences)
            write_vectors(source, sentences, folder, progress=self.progress, title="Whole student")
        return load_vectors(folder)

    def _place(self, number: int) -> Path:
        return self.work / "teachers" / str(number)


@dataclass
class TextCollator:
    """Collate sentences with the student's own preprocessing and default prompt.

    The trainer recognizes an input by the prefix of the names.

    :param max_length: Maximum tokens per sentence, if the student would read more.
    :param vectors: Vectors of all training sentences by name, memory-mapped; those of the batch are added.
    """

    model: SentenceTransformer
    max_length: int
    vectors: dict[str, np.ndarray]
    valid_label_columns: tuple[str, ...] = ()

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Return the tensors of a batch."""
        prompt = self.model.prompts.get(self.model.default_prompt_name or "")
        max_length = min(self.max_length, self.model.max_seq_length or self.max_length)
        settings: Any = {"text": {"truncation": True, "max_length": int(max_length)}}
        texts: Any = [row["text"] for row in rows]
        found = self.model.preprocess(texts, prompt=prompt or None, processing_kwargs=settings)
        batch = {f"text_{name}": value for name, value in found.items() if isinstance(value, torch.Tensor)}
        numbers = np.array([row["row"] for row in rows])
        for name, table in self.vectors.items():
            batch[f"text_{name}"] = torch.from_numpy(np.asarray(table[numbers]))
        return batch
