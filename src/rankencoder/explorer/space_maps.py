"""Maps of the reference sentences in base space and rank space: PCA, or UMAP with clusters."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any

import numpy as np
import torch
from scipy.linalg import orthogonal_procrustes

from rankencoder.formatting import clean, number
from rankencoder.model import RankEncoder

SENTENCES = 2000
NEIGHBORS = 10
_MIN_SENTENCES = 50  # sentences for a neighbor map
_WORDS = 3  # words that name a cluster


def neighbor_map() -> str:
    """Return the name of the neighbor map: UMAP if it is installed, otherwise t-SNE."""
    return "t-SNE" if importlib.util.find_spec("umap") is None else "UMAP"


def draw(model: RankEncoder, kind: str = "PCA", most: int = SENTENCES) -> dict[str, Any]:
    """Project a sample of the reference corpus into two dimensions.

    :param kind: "PCA", or anything else for a neighbor map with clusters.
    :return: Sentences, their points in both spaces (within −1 and 1), clusters, and a text about the maps.
    """
    base = model.form.reference[:most]
    vectors = {"base": base, "ranks": model.form(base)}
    sentences = [clean(text) for text in model.reference.sentences[: len(base)]]
    near = [_nearest(rows) for rows in vectors.values()]
    kept = float(np.mean([len(set(a) & set(b)) for a, b in zip(*near, strict=True)]))
    shared = f"{number(kept, 1)} of a sentence’s {near[0].shape[1]} nearest are the same in both spaces."
    clusters, names = [-1] * len(base), list[str]()
    if kind == "PCA" or len(base) < _MIN_SENTENCES:
        components = {name: _principal(rows) for name, rows in vectors.items()}
        flat = {name: points for name, (points, _) in components.items()}
        held = [number(100 * share, 0) for _, share in components.values()]
        about = f"Two axes hold {held[0]}% of the variance in base space, {held[1]}% of it in rank space."
    else:
        flat = {name: _neighborhoods(rows) for name, rows in vectors.items()}
        clusters, names = _clusters(flat["base"], sentences)
        about = (
            f"{neighbor_map()} keeps neighbors together; distances between clusters mean little. "
            "Colors are the clusters of the base space."
        )
    onto, points = (flat[name] - flat[name].mean(axis=0) for name in ("base", "ranks"))
    flat["ranks"] = points @ orthogonal_procrustes(points, onto)[0]
    return {
        "sentences": sentences,
        "points": {name: _fitted(points) for name, points in flat.items()},
        "clusters": clusters,
        "names": names,
        "about": f"{about} In all dimensions, {shared}",
    }


def _principal(vectors: torch.Tensor) -> tuple[np.ndarray, float]:
    """Return the first two principal components, and the share of the variance that they hold."""
    from sklearn.decomposition import PCA

    rows = vectors.double().cpu().numpy()
    pca = PCA(min(2, *rows.shape), random_state=0)
    points = np.pad(pca.fit_transform(rows), ((0, 0), (0, 2 - pca.n_components_)))
    return points, float(np.nan_to_num(pca.explained_variance_ratio_).sum())


def _neighborhoods(vectors: torch.Tensor) -> np.ndarray:
    mapping: Any
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if neighbor_map() == "UMAP":
            from umap import UMAP

            mapping = UMAP(metric="cosine", min_dist=0.0, random_state=0, n_jobs=1)
        else:
            from sklearn.manifold import TSNE

            mapping = TSNE(metric="cosine", random_state=0, init="pca")
        return np.asarray(mapping.fit_transform(vectors.float().cpu().numpy()), dtype=float)


def _clusters(points: np.ndarray, sentences: list[str]) -> tuple[list[int], list[str]]:
    """Return the cluster of each sentence (−1 for none), and the words that are typical of each cluster."""
    from sklearn.cluster import HDBSCAN
    from sklearn.feature_extraction.text import TfidfVectorizer

    found = HDBSCAN(min_cluster_size=max(8, len(points) // 100), copy=True).fit_predict(points)
    texts = [" ".join(np.array(sentences)[found == cluster]) for cluster in range(-1, found.max() + 1)]
    try:
        words = TfidfVectorizer(stop_words="english", token_pattern=r"[^\W\d_]{3,}")
        weights = words.fit_transform(texts).toarray()
        terms = words.get_feature_names_out()
    except ValueError:  # no words
        return found.tolist(), [f"cluster {number}" for number in range(1, len(texts))]
    return found.tolist(), [", ".join(terms[np.argsort(-row)[:_WORDS]]) for row in weights[1:]]


def _fitted(points: np.ndarray) -> list[list[float]]:
    """Scale points into −1 to 1, keeping their shape."""
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    size = max(float(np.abs(points - middle).max()), 1e-12)
    fitted: list[list[float]] = ((points - middle) / size).round(4).tolist()
    return fitted


def _nearest(vectors: torch.Tensor) -> np.ndarray:
    similarities = vectors @ vectors.T
    similarities.fill_diagonal_(-torch.inf)
    return similarities.topk(min(NEIGHBORS, len(vectors) - 1)).indices.cpu().numpy()
