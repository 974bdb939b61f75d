"""Rank vectors against scipy, numpy, torch and the loop over rows that RankEncoder's authors describe.

Ours and the authors' loop end with normalised rank vectors; ``rankdata`` and the argsorts stop at plain
ranks, and ``spearmanr`` goes on to correlations, which for ours is one product more.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch

from rankencoder import rank_similarity, rank_vectors
from speed.timing import Work, compare

SIZES = tuple((rows, n) for n in (1_000, 10_000, 100_000) for rows in (1, 64, 512))
_SLOW = 64 * 100_000  # values from which on slow peers of a CPU are not waited for
_CORRELATED = 64  # rows of which scipy correlates each with each


def similarities(rows: int, n: int, device: str) -> torch.Tensor:
    """Return cosines of random unit vectors: bell-shaped, with each row's own sentence far out."""
    generator = torch.Generator().manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(max(n, rows), 64, generator=generator), dim=1)
    return (vectors[:rows] @ vectors[:n].T).to(device)


def scipy_ranks(array: np.ndarray) -> np.ndarray:
    """Rank by scipy."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(array, axis=1))


def scipy_correlations(array: np.ndarray) -> np.ndarray:
    """Correlate all rows by scipy."""
    from scipy.stats import spearmanr

    return np.asarray(spearmanr(array, axis=1).statistic)


def numpy_ranks(array: np.ndarray) -> np.ndarray:
    """Rank by numpy's argsort and a scatter, row by row."""
    ranks = np.empty(array.shape, dtype=np.float32)
    places = np.arange(array.shape[1], dtype=np.float32)
    for row, out in zip(array, ranks, strict=True):
        out[np.argsort(row)] = places
    return ranks


def torch_ranks(tensor: torch.Tensor) -> torch.Tensor:
    """Rank by torch's argsort and a scatter, all rows at once."""
    places = torch.arange(tensor.shape[1], dtype=torch.float32, device=tensor.device).expand_as(tensor)
    return torch.empty_like(tensor).scatter_(1, tensor.argsort(dim=1), places)


def authors_loop(tensor: torch.Tensor) -> torch.Tensor:
    """Make normalised rank vectors, as ours are, row by row on the device."""
    places = torch.arange(tensor.shape[1], dtype=torch.float32, device=tensor.device)
    rows = []
    for row in tensor:
        ranks = torch.empty_like(places)
        ranks[row.argsort()] = places
        rows.append(ranks)
    vectors = torch.stack(rows)
    vectors -= vectors.mean(dim=1, keepdim=True)
    return vectors.div_(vectors.norm(dim=1, keepdim=True))


def largest_error(tensor: torch.Tensor) -> float:
    """Return how far correlations of counted ranks are from those of exact ranks, at most."""
    exact = rank_vectors(tensor[:64].double(), method="exact")
    counted = rank_vectors(tensor[:64]).double()
    return float((counted @ counted.T - exact @ exact.T).abs().max())


def peers(tensor: torch.Tensor) -> dict[str, Work]:
    """Return the peers that a size can be measured with."""
    found: dict[str, Work] = {
        "torch argsort": lambda: torch_ranks(tensor),
        "authors' loop": lambda: authors_loop(tensor),
    }
    if tensor.device.type == "cpu":
        array = tensor.numpy()
        found["numpy argsort"] = lambda: numpy_ranks(array)
        found["scipy rankdata"] = lambda: scipy_ranks(array)
    return found


def measure(device: str, bandwidth: float, *, quick: bool) -> list[dict[str, Any]]:
    """Time ours and all peers at every size.

    :param bandwidth: Bytes a second; each similarity must be read and each rank written, once.
    """
    rounds = 3 if quick else 7
    found = []
    for rows, n in SIZES:
        if device == "cpu" and rows * n > _SLOW and quick:
            continue
        tensor = similarities(rows, n, device)
        works: dict[str, Work] = {"ours": partial(rank_vectors, tensor), **peers(tensor)}
        row = {"B": rows, "n": n, **compare(works, "ours", rounds=rounds, device=device)}
        row["floor_ms"] = 1000 * 2 * tensor.numel() * tensor.element_size() / bandwidth
        row["error"] = largest_error(tensor)
        found.append(row)
    return found + ([_correlations(rounds)] if device == "cpu" else [])


def _correlations(rounds: int) -> dict[str, Any]:
    tensor = similarities(_CORRELATED, 10_000, "cpu")
    array = tensor.numpy()
    works = {"ours": lambda: rank_similarity(tensor), "scipy spearmanr": lambda: scipy_correlations(array)}
    return {"B": _CORRELATED, "n": 10_000, "correlated": True, **compare(works, "ours", rounds=rounds)}
