"""The inference blend of rank similarity and cosine (Eq. 7), for scores and for vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rankencoder.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import torch

Number = TypeVar("Number", "float", "torch.Tensor", "np.ndarray")


def check_rank_weight(rank_weight: float) -> float:
    """Check that λ is between 0 and 1."""
    if not 0 <= rank_weight <= 1:
        raise InputError(f"rank_weight must be between 0 (cosine only) and 1 (ranks only), not {rank_weight}")
    return float(rank_weight)


def blend(rank_similarity: Number, cosine: Number, rank_weight: float) -> Number:
    """Return λ · rank similarity + (1 − λ) · cosine (Eq. 7).

    >>> round(blend(0.5, 1.0, rank_weight=0.1), 3)
    0.95
    """
    return rank_weight * rank_similarity + (1 - rank_weight) * cosine


def blend_vectors(ranks: torch.Tensor, vectors: torch.Tensor, rank_weight: float) -> torch.Tensor:
    """Return [√λ · z ; √(1−λ) · ê], unit vectors whose plain cosine is Eq. 7.

    Parts without weight are left out.

    :param ranks: Unit rank vectors z, ``[B, r]``.
    :param vectors: Unit sentence vectors ê, ``[B, d]``.
    :param rank_weight: λ.
    :return: ``[B, blended_dimension(r, d, λ)]``.
    """
    import torch

    if rank_weight in (0, 1):
        return ranks if rank_weight else vectors
    return torch.cat([ranks * rank_weight**0.5, vectors * (1 - rank_weight) ** 0.5], dim=1)


def blended_dimension(rank_dimension: int, dimension: int, rank_weight: float) -> int:
    """Return the dimension of blended vectors.

    >>> blended_dimension(256, 384, 0.1), blended_dimension(256, 384, 0), blended_dimension(256, 384, 1)
    (640, 384, 256)
    """
    return rank_dimension * (rank_weight > 0) + dimension * (rank_weight < 1)


def reweight_vectors(blended: torch.Tensor, rank_dimension: int, old: float, new: float) -> torch.Tensor:
    """Change λ of blended vectors."""
    if old == new:
        return blended
    if old in (0, 1):
        gone = "cosine" if old else "rank"
        raise InputError(f"vectors encoded with rank_weight {old} have no {gone} part: encode again")
    ranks, vectors = blended[:, :rank_dimension], blended[:, rank_dimension:]
    return blend_vectors(ranks / old**0.5, vectors / (1 - old) ** 0.5, new)
