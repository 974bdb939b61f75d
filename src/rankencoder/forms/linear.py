"""The linear form: Pearson's instead of Spearman's correlation, a cosine after one linear map."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch

from rankencoder.forms.form import Form
from rankencoder.ranks import in_double

POWER = 0.5
_CHUNK = 65_536  # vectors to process at a time in double precision
_NEGLIGIBLE = 1e-7  # relative to the largest eigenvalue: directions without real variance in float32


class LinearForm(Form):
    """The map x → Σ^power x, where Σ is the covariance of the reference vectors.

    Pearson's correlation of two sentences' similarities to the reference corpus is the cosine of their
    vectors after Σ^½. Power 0 is the plain cosine; with centering, power −½ is whitening.
    """

    name = "linear"
    settings: ClassVar = {"power": (-2, 2), "center": (False, True)}
    matrix: torch.Tensor
    mean: torch.Tensor

    def __init__(
        self, reference: torch.Tensor, power: float, center: bool, matrix: torch.Tensor, mean: torch.Tensor
    ) -> None:
        super().__init__(reference)
        self.power = power
        self.center = center
        self.register_buffer("matrix", matrix)
        self.register_buffer("mean", mean)

    @classmethod
    def fit(  # type: ignore[override]
        cls, reference: torch.Tensor, power: float = POWER, center: bool | None = None
    ) -> LinearForm:
        """Raise the covariance of the reference vectors to a power.

        :param power: +½ is Pearson's correlation of the similarities, 0 the plain cosine, −½ whitening.
        :param center: Whether to subtract the reference's mean vector first; by default for negative powers.
        """
        center = power < 0 if center is None else center
        mean = _mean(reference, lambda part: part.sum(dim=0))
        matrix = matrix_power(_mean(reference, lambda part: (part - mean).T @ (part - mean)), power)
        mean = mean if center else torch.zeros_like(mean)
        # a common scale does not change cosines, and keeps values near 1 for every power
        scale = _mean(reference, lambda part: ((part - mean) @ matrix).square().sum()).sqrt().clamp(min=1e-30)
        return cls(reference, float(power), center, (matrix / scale).to(reference), mean.to(reference))

    @property
    def label(self) -> str:
        """Ranks for power +½, else the power."""
        return "ranks" if self.power == POWER else f"power {self.power:+g}"

    @property
    def dimension(self) -> int:
        """The encoder's own dimension."""
        return self.matrix.shape[1]

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return mapped vectors at unit norm."""
        return torch.nn.functional.normalize((vectors - self.mean) @ self.matrix, dim=1)


def _mean(vectors: torch.Tensor, total: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Return the mean over vectors, given a function that sums over some of them, in double precision."""
    found = sum(total(in_double(part)) for part in vectors.split(_CHUNK))
    assert isinstance(found, torch.Tensor)
    return found / len(vectors)


def matrix_power(covariance: torch.Tensor, power: float) -> torch.Tensor:
    """Return Σ^power of a covariance matrix, without the directions of negligible variance."""
    if power == 0:
        return torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)
    values, vectors = torch.linalg.eigh(covariance)
    real = values > _NEGLIGIBLE * values[-1].clamp(min=0)
    powers = torch.where(real, values.clamp(min=1e-300) ** power, torch.zeros_like(values))
    result: torch.Tensor = (vectors * powers) @ vectors.T
    return result
