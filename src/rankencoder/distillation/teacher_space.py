"""Map a student linearly into its teacher's vector space."""

from __future__ import annotations

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize

from rankencoder.distillation.agreement import neighbor_recall

_RIDGES = np.logspace(-4, 2, 25)  # candidates, relative to the mean variance


def fit_map(student: np.ndarray, teacher: np.ndarray) -> np.ndarray:
    """Return W, ``[teacher's dimension, student's]``, with the least ‖W s − t‖² + α‖W‖².

    α has the least generalized cross-validation error, ‖S W − T‖² / (1 − tr H/n)² with H = S (SᵀS + α)⁻¹ Sᵀ.

    >>> s = np.random.default_rng(0).normal(size=(100, 3))
    >>> turn = np.array([[0.0, 1, 0], [1, 0, 0], [0, 0, -1]])
    >>> bool(np.abs(fit_map(s, s @ turn.T) - turn).max() < 0.01)
    True
    """
    s, t = (np.asarray(rows, dtype=np.float64) for rows in (student, teacher))
    variances, directions = np.linalg.eigh(s.T @ s)
    projected = directions.T @ (s.T @ t)
    alphas = _RIDGES * variances.mean()
    shrunk = 1 / (variances + alphas[:, None])
    explained = (shrunk * (2 - variances * shrunk)) @ (projected**2).sum(axis=1)
    errors = ((t**2).sum() - explained) / (1 - shrunk @ variances / len(s)) ** 2
    return np.asarray((directions * shrunk[errors.argmin()] @ projected).T)


def space_recall(queries: np.ndarray, documents: np.ndarray) -> float:
    """Return the share of a teacher query's 10 nearest documents that the student's query also finds.

    :param queries: The student's unit vectors, in the teacher's space.
    :param documents: The teacher's unit vectors of the same sentences; each is also a query.
    """
    return neighbor_recall(queries @ documents.T, documents @ documents.T)


def map_into_space(model: SentenceTransformer, weight: np.ndarray) -> None:
    """Append the map to a model, as built-in modules that load without custom code."""
    dense = Dense(
        weight.shape[1],
        weight.shape[0],
        bias=False,
        activation_function=None,
        init_weight=torch.from_numpy(weight).float(),
    )
    for module in (Normalize(), dense, Normalize()):
        model.append(module.to(model.device))
