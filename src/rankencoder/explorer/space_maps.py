"""What the second tab shows: the same reference sentences in base space and in rank space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from rankencoder.evaluation.space_figures import project, turned
from rankencoder.model import RankEncoder
from rankencoder.report.formatting import clean, number

SENTENCES = 2000
NEIGHBORS = 10


@dataclass(frozen=True)
class Space:
    """A map of one space: places within −1 and 1, and the share of the variance that the two axes hold."""

    name: str
    points: list[list[float]]
    share: float


@dataclass(frozen=True)
class Maps:
    """Both maps.

    :param kept: How many of a sentence's 10 nearest in base space are its nearest in rank space, on average.
    """

    sentences: list[str]
    spaces: list[Space]
    kept: float
    about: str


def draw(model: RankEncoder, most: int = SENTENCES) -> Maps:
    """Place a sample of the reference corpus, which is in random order, in the plane."""
    base = model.form.reference[:most]
    vectors = {"base": base, "ranks": model.form(base)}
    flat = {name: project(rows, "pca", seed=0) for name, rows in vectors.items()}
    flat["ranks"] = turned(flat["ranks"], flat["base"])
    spaces = [Space(name, _fitted(flat[name]), _share(flat[name], rows)) for name, rows in vectors.items()]
    near = [_nearest(rows) for rows in vectors.values()]
    kept = float(np.mean([len(set(a) & set(b)) for a, b in zip(*near, strict=True)]))
    sentences = [clean(text) for text in model.reference.sentences[: len(base)]]
    held = [number(100 * space.share, 0) for space in spaces]
    label = model.form.label
    ranks = "rank vectors" if label == "ranks" else f"the vectors of {label.replace('-', '−')}"
    about = (
        f"Principal components: the two axes hold {held[0]}% of the variance of the encoder’s own vectors "
        f"and {held[1]}% of that of {ranks}; the rest of both spaces is not to be seen here. In all "
        f"dimensions, {number(kept, 1)} of a sentence’s {near[0].shape[1]} nearest are the same in both."
    )
    return Maps(sentences, spaces, kept, about)


def _fitted(points: np.ndarray) -> list[list[float]]:
    """Return places within −1 and 1, the shape unchanged."""
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    size = max(float(np.abs(points - middle).max()), 1e-12)
    fitted: list[list[float]] = ((points - middle) / size).round(4).tolist()
    return fitted


def _share(points: np.ndarray, vectors: torch.Tensor) -> float:
    whole = float(vectors.double().var(dim=0, correction=0).sum())
    return float(points.var(axis=0).sum()) / max(whole, 1e-12)


def _nearest(vectors: torch.Tensor) -> np.ndarray:
    similarities = vectors @ vectors.T
    similarities.fill_diagonal_(-torch.inf)
    return similarities.topk(min(NEIGHBORS, len(vectors) - 1)).indices.cpu().numpy()
