"""The formulas of the losses, one function each."""

from __future__ import annotations

from typing import Literal

import torch
from torch.nn import functional

from rankencoder.ranks import training_rank_vectors

Combine = Literal["max", "sum"]
Diagonal = Literal["auto", "always", "never"]


def cosine_matrix(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the cosine of every row of ``a`` with every row of ``b``, in float32 even under autocast.

    With a temperature of 0.05, half precision would lose digits that matter.
    """
    with torch.autocast(a.device.type, enabled=False):
        return functional.normalize(a.float(), dim=-1) @ functional.normalize(b.float(), dim=-1).T


def info_nce(cosines: torch.Tensor, temperature: float) -> torch.Tensor:
    """Return the contrastive loss of SimCSE (Eq. 4 as a mean), with positives on the diagonal.

    >>> cosines = torch.tensor([[0.95, 0.40, 0.10], [0.35, 0.90, 0.55], [0.05, 0.50, 0.92]]).double()
    >>> f"{info_nce(cosines, 0.05):.4e}"
    '3.8992e-04'
    """
    return functional.cross_entropy(cosines / temperature, torch.arange(len(cosines), device=cosines.device))


@torch.no_grad()
def rank_targets(teacher: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Return the rank similarities (Eq. 3) of all pairs of sentences in a batch, by E1.

    :param teacher: E1's vectors of the batch, ``[N, dimension]``.
    :param reference: E1's unit vectors of the reference corpus, ``[n, dimension]``, float32.

    >>> corpus = torch.tensor([[1, 0], [0, 1], [-1, 0], [0, -1], [0.6, 0.8]])
    >>> batch = torch.tensor([[0.8, 0.6], [0.28, 0.96], [-0.6, 0.8]])
    >>> rank_targets(batch, corpus).numpy().round(4).tolist()[0]
    [1.0, 0.6000000238418579, -0.10000000149011612]
    """
    with torch.autocast(teacher.device.type, enabled=False):
        ranks = training_rank_vectors(functional.normalize(teacher.float(), dim=1) @ reference.T)
        return (ranks @ ranks.T).clamp(-1, 1)  # rounding must not exceed an upper bound of 1


def select_pairs(targets: torch.Tensor, lower: float, upper: float, diagonal: Diagonal) -> torch.Tensor:
    """Return which pairs the rank loss counts: those with τ_l ≤ target ≤ τ_u (pair filtering, Section 3.2).

    :param diagonal: Whether a sentence is paired with itself: "auto" (by the bounds), "always" or "never".
    """
    chosen = (targets >= lower) & (targets <= upper)
    if diagonal != "auto":
        chosen.fill_diagonal_(diagonal == "always")
    return chosen


def rank_loss(cosines: torch.Tensor, targets: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """Return l_r (Eq. 5): the mean squared difference of E2's cosines and E1's rank similarities.

    :param cosines: E2's cosines, ``[N, N]``.
    :param targets: E1's rank similarities, ``[N, N]``.
    :param chosen: Which pairs count; 0 if none do.

    >>> cosines = torch.tensor([[0.95, 0.40, 0.10], [0.35, 0.90, 0.55], [0.05, 0.50, 0.92]])
    >>> targets = torch.tensor([[1.0, 0.6, -0.1], [0.6, 1.0, 0.7], [-0.1, 0.7, 1.0]])
    >>> f"{rank_loss(cosines, targets, select_pairs(targets, 0.5, 0.8, 'auto')):.5f}"
    '0.04125'
    """
    return ((cosines - targets).square() * chosen).sum() / chosen.sum().clamp(min=1)


def listnet_loss(cosines: torch.Tensor, targets: torch.Tensor, temperature: float) -> torch.Tensor:
    """Return the ListNet loss of RankCSE: cross-entropy of two distributions over the other sentences.

    It is not in the paper, whose loss (Eq. 5) learns each similarity separately.

    >>> round(listnet_loss(torch.eye(3), torch.eye(3), 0.05).item(), 6)  # two equal similarities: ln 2
    0.693147
    """
    student, teacher = (_others(matrix) / temperature for matrix in (cosines, targets))
    # a sum, as cross_entropy's mean would be NaN for a batch of one sentence
    return -(teacher.softmax(dim=1) * student.log_softmax(dim=1)).sum() / len(cosines)


def _others(matrix: torch.Tensor) -> torch.Tensor:
    """Return a square matrix without its diagonal."""
    n = len(matrix)
    return matrix.flatten()[1:].view(n - 1, n + 1)[:, :-1].reshape(n, n - 1)


def total_loss(
    contrastive: torch.Tensor, rank: torch.Tensor, weight: float, combine: Combine
) -> torch.Tensor:
    """Return l_total (Eq. 6): max(λ·l_r, l_cl), or the authors' code's l_cl + λ·l_r.

    >>> total_loss(torch.tensor(0.2), torch.tensor(2.0), 0.05, "max").item()
    0.20000000298023224
    """
    weighted = weight * rank
    return torch.maximum(weighted, contrastive) if combine == "max" else contrastive + weighted
