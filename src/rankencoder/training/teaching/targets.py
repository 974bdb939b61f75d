"""The similarities that E2 learns: of one teacher or the mean of several, by ranks or by a linear map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import nn

from rankencoder.forms.linear import LinearForm
from rankencoder.training.losses.formulas import rank_targets

Target = Literal["ranks", "cosine"] | float


@dataclass
class Targets:
    """What stage 2 learns from, teacher by teacher: unit vectors, on disk or in memory."""

    teachers: Sequence[np.ndarray]  # of the training sentences
    references: Sequence[np.ndarray]  # of the reference corpus


class TeacherSimilarity(nn.Module):
    """The similarity of every two sentences of a batch, as the teachers see them on average.

    Rank vectors are over one reference corpus whatever an encoder's dimension, so that those of several
    encoders can be compared.

    :param references: Each teacher's unit vectors of the reference corpus, ``[n, its dimension]``.
    :param target: "ranks" (Eq. 3), "cosine", or a power of the covariance of the reference vectors.
    """

    def __init__(self, references: Sequence[torch.Tensor], target: Target = "ranks") -> None:
        super().__init__()
        self.target = target
        self.teachers = nn.ModuleList(_Teacher(reference.float(), target) for reference in references)

    def forward(self, vectors: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the mean similarities, ``[N, N]``, of the teachers' vectors ``[N, its dimension]``."""
        pairs = zip(self.teachers, vectors, strict=True)
        return torch.stack([teacher(batch) for teacher, batch in pairs]).mean(dim=0)


class _Teacher(nn.Module):
    reference: torch.Tensor

    def __init__(self, reference: torch.Tensor, target: Target) -> None:
        super().__init__()
        self.register_buffer("reference", reference, persistent=False)
        self.form = None
        if target != "ranks":
            self.form = LinearForm.fit(reference, power=0.0 if target == "cosine" else float(target))

    @torch.no_grad()
    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        if self.form is None:
            return rank_targets(vectors, self.reference)
        with torch.autocast(vectors.device.type, enabled=False):
            mapped = self.form(nn.functional.normalize(vectors.float(), dim=1))
            similarities: torch.Tensor = (mapped @ mapped.T).clamp(-1, 1)
            return similarities
