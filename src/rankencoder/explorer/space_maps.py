"""What the second tab shows: the same reference sentences in base space and in rank space."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rankencoder.evaluation.space_figures import project, turned
from rankencoder.model import RankEncoder
from rankencoder.report.formatting import clean, number

SENTENCES = 2000
NEIGHBORS = 10


def draw(model: RankEncoder, most: int = SENTENCES) -> dict[str, Any]:
    """Place a sample of the reference corpus, which is in random order, in the plane.

    :return: The sentences, their points in both spaces, within −1 and 1, and a text about the maps.
    """
    base = model.form.reference[:most]
    vectors = {"base": base, "ranks": model.form(base)}
    flat = {name: project(rows, "pca") for name, rows in vectors.items()}
    flat["ranks"] = turned(flat["ranks"], flat["base"])
    held = [number(100 * _share(flat[name], rows), 0) for name, rows in vectors.items()]
    near = [_nearest(rows) for rows in vectors.values()]
    kept = float(np.mean([len(set(a) & set(b)) for a, b in zip(*near, strict=True)]))
    label = model.form.label
    ranks = "rank vectors" if label == "ranks" else f"the vectors of {label.replace('-', '−')}"
    return {
        "sentences": [clean(text) for text in model.reference.sentences[: len(base)]],
        "points": {name: _fitted(points) for name, points in flat.items()},
        "about": (
            f"Principal components: the two axes hold {held[0]}% of the variance of the encoder’s own "
            f"vectors and {held[1]}% of that of {ranks}; the rest of both spaces is not to be seen here. In "
            f"all dimensions, {number(kept, 1)} of a sentence’s {near[0].shape[1]} nearest are the same in "
            "both."
        ),
    }


def _fitted(points: np.ndarray) -> list[list[float]]:
    """Return places within −1 and 1, the shape unchanged."""
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    size = max(float(np.abs(points - middle).max()), 1e-12)
    fitted: list[list[float]] = ((points - middle) / size).round(4).tolist()
    return fitted


def _share(points: np.ndarray, vectors: torch.Tensor) -> float:
    """Return the share of the variance that the two axes hold."""
    whole = float(vectors.double().var(dim=0, correction=0).sum())
    return float(points.var(axis=0).sum()) / max(whole, 1e-12)


def _nearest(vectors: torch.Tensor) -> np.ndarray:
    similarities = vectors @ vectors.T
    similarities.fill_diagonal_(-torch.inf)
    return similarities.topk(min(NEIGHBORS, len(vectors) - 1)).indices.cpu().numpy()
