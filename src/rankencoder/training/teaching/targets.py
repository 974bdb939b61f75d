"""Combine the similarities of one or several teachers into the student's targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import nn

from rankencoder.errors import InputError
from rankencoder.forms.linear import LinearForm
from rankencoder.training.losses.formulas import rank_targets

Target = Literal["ranks", "cosine"] | float


@dataclass(frozen=True)
class Mix:
    """Linear combination of the teachers' similarities: ``offset + Σ factors_i · s_i``."""

    factors: Sequence[float]
    offset: float = 0.0


def standardized_mix(
    similarities: Sequence[np.ndarray], weights: Sequence[float], mean: float, deviation: float
) -> Mix:
    """Return the mean of the teachers' z-scores, rescaled to the student's own cosines.

    With ``t`` the weighted mean of the teachers' z-scores (s_i − μ_i)/σ_i, the target of a pair is
    μ_s + σ_s · (t − mean t)/std t, which is linear in the similarities.

    :param similarities: Each teacher's similarities of the same random pairs.
    :param weights: Relative weight of each teacher.
    :param mean: μ_s, mean of the student's cosines of random pairs before training.
    :param deviation: σ_s, their standard deviation.

    >>> a, b = np.array([0.1, 0.2, 0.3]), np.array([0.7, 0.9, 0.8])
    >>> mix = standardized_mix([a, b], [1, 1], mean=0.5, deviation=0.1)
    >>> target = mix.offset + mix.factors[0] * a + mix.factors[1] * b
    >>> round(float(target.mean()), 6), round(float(target.std()), 6)
    (0.5, 0.1)
    """
    rows = np.stack([np.asarray(row, dtype=np.float64) for row in similarities])
    means, deviations = rows.mean(axis=1), rows.std(axis=1)
    if (constant := deviations < 1e-9).any():
        raise InputError(
            f"teacher {1 + int(constant.argmax())} gives all pairs the same similarity: leave it out"
        )
    factors = np.asarray(weights, dtype=np.float64) / deviations
    spread = float((factors @ (rows - means[:, None])).std())
    if spread < 1e-9:
        raise InputError("the teachers' similarities cancel each other out: leave one of them out")
    factors *= deviation / spread
    return Mix(factors.tolist(), float(mean - factors @ means))


@dataclass
class Targets:
    """Unit vectors of each teacher, on disk or in memory."""

    teachers: Sequence[np.ndarray]  # vectors of the training sentences
    references: Sequence[np.ndarray]  # vectors of the reference corpus


class TeacherSimilarity(nn.Module):
    """The teachers' combined similarity of all pairs of sentences in a batch.

    Rank vectors are over one reference corpus, so those of several encoders are comparable.

    :param references: Each teacher's unit vectors of the reference corpus, ``[n, its dimension]``.
    :param target: "ranks" (Eq. 3), "cosine", or a power of the covariance of the reference vectors.
    :param mix: How to combine the similarities; by default the mean.
    """

    def __init__(
        self, references: Sequence[torch.Tensor], target: Target = "ranks", mix: Mix | None = None
    ) -> None:
        super().__init__()
        self.target = target
        self.teachers = nn.ModuleList(_Teacher(reference.float(), target) for reference in references)
        self.mix = mix or Mix([1 / len(references)] * len(references))

    def forward(self, vectors: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the combined similarities ``[N, N]`` of each teacher's vectors ``[N, its dimension]``."""
        total = torch.zeros((), device=vectors[0].device)
        for factor, similarities in zip(self.mix.factors, self.each(vectors), strict=True):
            total = total + factor * similarities
        return total + self.mix.offset

    def each(self, vectors: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
        """Yield each teacher's similarities of the sentences, ``[N, N]``."""
        for teacher, batch in zip(self.teachers, vectors, strict=True):
            yield teacher(batch)


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
