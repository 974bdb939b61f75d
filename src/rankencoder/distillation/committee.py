"""Combine the teachers' similarities into one target."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from rankencoder.distillation.agreement import Dissent, find_dissent
from rankencoder.distillation.distill_config import DistillConfig
from rankencoder.errors import TrainingWarning
from rankencoder.fused_encoder import random_cosines
from rankencoder.training.teaching.targets import Mix, TeacherSimilarity, standardized_mix

_REFERENCES = 10_000  # sentences in the reference corpus for ranks
_SAMPLE = 2000  # sentences whose pairs give means and standard deviations
_STRIDE = 10  # dissent is measured on every tenth of these pairs, because ranking all is slow


def spread_rows(rows: np.ndarray, most: int) -> np.ndarray:
    """Return at most ``most`` evenly spaced rows."""
    return rows if len(rows) <= most else rows[np.arange(most) * len(rows) // most]


@dataclass
class Committee:
    """Several teachers combined into one similarity.

    :param tables: Each teacher's unit vectors of all sentences, on disk.
    :param rows: Row numbers of the sentences to teach.
    """

    names: Sequence[str]
    tables: Sequence[np.ndarray]
    rows: np.ndarray
    config: DistillConfig

    def similarity(self, mean: float, deviation: float) -> TeacherSimilarity:
        """Return the similarity that the student learns.

        :param mean: Mean of the student's cosines of random pairs; with ``deviation``, the scale to keep.
        """
        target = self.config.target
        references = [torch.from_numpy(self.sample(table, _REFERENCES)) for table in self.tables]
        weights = self.config.weight or [1.0] * len(self.tables)
        similarity = TeacherSimilarity(references, "ranks" if target == "ranks" else "cosine")
        similarity.mix = Mix([weight / sum(weights) for weight in weights])
        if target != "cosine":
            similarity.mix = standardized_mix(self._pairs(similarity), weights, mean, deviation)
        return similarity

    def targets(self, similarity: TeacherSimilarity, rows: np.ndarray) -> np.ndarray:
        """Return the teachers' similarities of some sentences, ``[n, n]``."""
        vectors = [torch.from_numpy(np.asarray(table[rows], dtype=np.float32)) for table in self.tables]
        return np.asarray(similarity.cpu()(vectors).numpy())

    def warn_of_dissent(self, similarity: TeacherSimilarity) -> Dissent | None:
        """Warn about a teacher that disagrees with the rest, with the effect of leaving it out."""
        pairs = [row[::_STRIDE] for row in self._pairs(similarity)]
        found = find_dissent([(row - row.mean()) / row.std() for row in pairs])
        if found is not None:
            warnings.warn(
                f"teacher {self.names[found.teacher]} disagrees with the rest (correlation "
                f"{found.agreement:.2f}): without it, the others' agreement rises from {found.others:.2f} to "
                f"{found.without:.2f}; a weaker teacher drags the student down, so try without it",
                TrainingWarning,
                stacklevel=3,
            )
        return found

    def sample(self, table: np.ndarray, most: int = _SAMPLE) -> np.ndarray:
        """Return some rows of a table of all sentences, from those to teach."""
        return np.asarray(table[spread_rows(self.rows, most)], dtype=np.float32)

    def _pairs(self, similarity: TeacherSimilarity) -> list[np.ndarray]:
        """Return each teacher's similarities of the same pairs of sentences."""
        vectors = [torch.from_numpy(self.sample(table)) for table in self.tables]
        upper = np.triu_indices(len(vectors[0]), k=1)
        return [matrix.numpy()[upper] for matrix in similarity.each(vectors)]


def cosine_scale(vectors: np.ndarray) -> tuple[float, float]:
    """Return mean and standard deviation of the cosines of random pairs of unit vectors."""
    cosines = random_cosines(vectors)
    return float(cosines.mean()), float(cosines.std())
