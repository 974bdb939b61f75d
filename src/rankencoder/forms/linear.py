"""The linear form: Pearson's correlation in place of Spearman's, which is the cosine after one linear map."""

from __future__ import annotations

from collections.abc import Callable

import torch

from rankencoder.errors import InputError
from rankencoder.forms.form import Form
from rankencoder.ranks import in_double

POWER = 0.5
_CHUNK = 65_536  # vectors in double precision at a time
_NEGLIGIBLE = 1e-7  # of the largest eigenvalue: directions in which float32 vectors do not really vary


class LinearForm(Form):
    """The map x → Σ^power x, Σ the covariance of the reference vectors.

    Correlating the similarities of two sentences to the reference corpus is taking the cosine of their
    vectors after Σ^½. Power 0 is the plain cosine; with centring, power −½ is whitening.
    """

    name = "linear"
    settings = ("power", "center")
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
    def check(cls, power: float = POWER, center: bool | None = None) -> None:  # type: ignore[override]
        """Refuse powers that would leave nothing but the first or the last direction."""
        if not -2 <= power <= 2:
            raise InputError(f"power must be between -2 and 2, not {power}")

    @classmethod
    def fit(  # type: ignore[override]
        cls, reference: torch.Tensor, power: float = POWER, center: bool | None = None
    ) -> LinearForm:
        """Take the covariance of the reference vectors to a power.

        :param power: +½ is Pearson's correlation of the similarities, 0 the plain cosine, −½ whitening.
        :param center: Whether to subtract the reference's mean vector first; by default for negative powers.
        """
        center = power < 0 if center is None else center
        mean = _mean(reference, in_double)
        matrix = matrix_power(_mean(reference, lambda part: _outer(in_double(part) - mean)), power)
        mean = mean if center else torch.zeros_like(mean)
        # an even scale: the cosine does not see it, and the numbers stay near 1 for every power
        squares = _mean(reference, lambda part: ((in_double(part) - mean) @ matrix).square().sum(1, True))
        scale = squares.sqrt().clamp(min=1e-30)
        return cls(reference, float(power), center, (matrix / scale).to(reference), mean.to(reference))

    @property
    def label(self) -> str:
        """A power other than +½ is no ranks."""
        return "ranks" if self.power == POWER else f"power {self.power:+g}"

    @property
    def dimension(self) -> int:
        """The encoder's own dimension."""
        return self.matrix.shape[1]

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return mapped vectors at unit norm."""
        return torch.nn.functional.normalize((vectors - self.mean) @ self.matrix, dim=1)


def _outer(vectors: torch.Tensor) -> torch.Tensor:
    """Return Σ x xᵀ, as one row."""
    return (vectors.T @ vectors)[None]


def _mean(vectors: torch.Tensor, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Return the mean over vectors of what a function makes of some of them, a few at a time."""
    total = sum(function(part).sum(dim=0) for part in vectors.split(_CHUNK))
    assert isinstance(total, torch.Tensor)
    return total / len(vectors)


def matrix_power(covariance: torch.Tensor, power: float) -> torch.Tensor:
    """Return Σ^power of a covariance matrix; for negative powers on the directions of real variance only."""
    if power == 0:
        return torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)
    values, vectors = torch.linalg.eigh(covariance)
    real = values > _NEGLIGIBLE * values[-1].clamp(min=0)
    powers = torch.where(real, values.clamp(min=1e-300) ** power, torch.zeros_like(values))
    result: torch.Tensor = (vectors * powers) @ vectors.T
    return result
