"""Maps of the reference sentences in base space and rank space: PCA, or UMAP with clusters."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any

import numpy as np
import torch

from rankencoder.formatting import clean, number
from rankencoder.model import RankEncoder

SENTENCES = 2000
NEIGHBORS = 10
_FEWEST = 50  # sentences for a map of neighborhoods
_WORDS = 3  # that name a cluster


def neighbor_map() -> str:
    """Return the name of the map of neighborhoods: UMAP where it is installed, otherwise t-SNE."""
    return "t-SNE" if importlib.util.find_spec("umap") is None else "UMAP"


def draw(model: RankEncoder, kind: str = "PCA", most: int = SENTENCES) -> dict[str, Any]:
    """Place a sample of the reference corpus in the plane.

    :param kind: "PCA", or anything else for a map of neighborhoods with clusters.
    :return: Sentences, their points in both spaces (within −1 and 1), clusters, and a text about the maps.
    """
    base = model.form.reference[:most]
    vectors = {"base": base, "ranks": model.form(base)}
    sentences = [clean(text) for text in model.reference.sentences[: len(base)]]
    near = [_nearest(rows) for rows in vectors.values()]
    kept = float(np.mean([len(set(a) & set(b)) for a, b in zip(*near, strict=True)]))
    shared = f"{number(kept, 1)} of a sentence’s {near[0].shape[1]} nearest are the same in both spaces."
    clusters, names = [-1] * len(base), list[str]()
    if kind == "PCA" or len(base) < _FEWEST:
        flat = {name: _principal(rows) for name, rows in vectors.items()}
        held = [number(100 * _share(flat[name], rows), 0) for name, rows in vectors.items()]
        about = f"Two components hold {held[0]}% of the variance in base space, {held[1]}% of that of ranks."
    else:
        flat = {name: _neighborhoods(rows) for name, rows in vectors.items()}
        clusters, names = _clusters(flat["base"], sentences)
        about = (
            f"{neighbor_map()} keeps neighbors together; distances between clusters mean little. "
            "Colors are the clusters of the base space."
        )
    flat["ranks"] = _turned(flat["ranks"], flat["base"])
    return {
        "sentences": sentences,
        "points": {name: _fitted(points) for name, points in flat.items()},
        "clusters": clusters,
        "names": names,
        "about": f"{about} In all dimensions, {shared}",
    }


def _principal(vectors: torch.Tensor) -> np.ndarray:
    from sklearn.decomposition import PCA

    rows = vectors.double().cpu().numpy()
    size = min(2, *rows.shape)
    return np.pad(PCA(size, random_state=0).fit_transform(rows), ((0, 0), (0, 2 - size)))


def _neighborhoods(vectors: torch.Tensor) -> np.ndarray:
    rows = vectors.float().cpu().numpy()
    if neighbor_map() == "UMAP":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from umap import UMAP

            mapped: Any = UMAP(metric="cosine", min_dist=0.0, random_state=0, n_jobs=1)
            return np.asarray(mapped.fit_transform(rows), dtype=float)
    from sklearn.manifold import TSNE

    return np.asarray(TSNE(metric="cosine", random_state=0, init="pca").fit_transform(rows), dtype=float)


def _clusters(points: np.ndarray, sentences: list[str]) -> tuple[list[int], list[str]]:
    """Return the cluster of each sentence (−1 for none), and the words that are typical of each cluster."""
    from sklearn.cluster import HDBSCAN
    from sklearn.feature_extraction.text import TfidfVectorizer

    found = HDBSCAN(min_cluster_size=max(8, len(points) // 100), copy=True).fit_predict(points)
    texts = [" ".join(text for text, of in zip(sentences, found, strict=True) if of == i) for i in set(found)]
    keys = list(set(found))
    try:
        words = TfidfVectorizer(stop_words="english", token_pattern=r"[^\W\d_]{3,}")
        weights = words.fit_transform(texts).toarray()
        terms = words.get_feature_names_out()
    except ValueError:  # no words
        return found.tolist(), [f"cluster {i + 1}" for i in range(max(found) + 1)]
    rows = {key: weights[place] for place, key in enumerate(keys)}
    names = [", ".join(terms[np.argsort(-rows[i])[:_WORDS]]) for i in range(max(found) + 1)]
    return found.tolist(), names


def _turned(points: np.ndarray, onto: np.ndarray) -> np.ndarray:
    """Rotate and mirror a map to resemble another as closely as possible."""
    left, _, right = np.linalg.svd((points - points.mean(axis=0)).T @ (onto - onto.mean(axis=0)))
    return np.asarray(points @ (left @ right))


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
