"""Fuse several encoders into one unit vector with the cosine of their standardized cosines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rankencoder.errors import InputError

if TYPE_CHECKING:
    import torch

PAIRS = 100_000  # random pairs that a mean and a standard deviation are taken over
_SEED = 42


def random_pairs(rows: int, number: int = PAIRS) -> tuple[np.ndarray, np.ndarray]:
    """Return two arrays of row numbers, the same at every call: random pairs of two different rows.

    >>> a, b = random_pairs(3)
    >>> len(a), bool((a == b).any())
    (100000, False)
    """
    draw = np.random.default_rng(_SEED)
    first = draw.integers(rows, size=number)
    return first, (first + draw.integers(1, rows, size=number)) % rows


def random_cosines(vectors: np.ndarray, number: int = PAIRS) -> np.ndarray:
    """Return the cosines of random pairs of unit vectors, in float64."""
    found = np.empty(number)
    first, second = random_pairs(len(vectors), number)
    for start in range(0, number, 4096):
        some = slice(start, start + 4096)
        a, b = (np.asarray(vectors[rows[some]], dtype=np.float64) for rows in (first, second))
        found[some] = (a * b).sum(axis=1)
    return found


def fusion_weights(spreads: Sequence[float], weights: Sequence[float] | None = None) -> np.ndarray:
    """Return the weight of each encoder's cosine in the fused one: 1/σ_i, or w_i/σ_i, summing to 1.

    :param spreads: σ_i, the standard deviation of each encoder's cosines over random pairs.
    :param weights: How much each encoder's *standardized* cosine counts; by default all the same.

    >>> fusion_weights([0.1, 0.05]).round(4).tolist()  # the narrower cosines count twice
    [0.3333, 0.6667]
    """
    if min(spreads) <= 0:
        number = 1 + int(np.argmin(spreads))
        raise InputError(f"encoder {number} gives all pairs the same cosine: leave it out")
    wanted = np.ones(len(spreads)) if weights is None else np.asarray(weights, dtype=np.float64)
    scaled = wanted / np.asarray(spreads, dtype=np.float64)
    return np.asarray(scaled / scaled.sum())


def fuse_vectors(vectors: Sequence[torch.Tensor], weights: Sequence[float]) -> torch.Tensor:
    """Return [√w_1 · ê_1 ; … ; √w_k · ê_k], unit vectors whose cosine is Σ w_i cos_i."""
    import torch

    return torch.cat([rows * weight**0.5 for rows, weight in zip(vectors, weights, strict=True)], dim=1)
