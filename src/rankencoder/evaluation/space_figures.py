"""What a space of sentence vectors looks like: the paper's Table 2, and hubs and directions besides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rankencoder.evaluation.statistics import alignment, hubness, spread, uniformity

if TYPE_CHECKING:
    from rankencoder.evaluation.sts_data import PairSet
    from rankencoder.evaluation.subjects import Subject

POSITIVE = 0.8  # gold/5 above this is a positive pair: more than 4 of 5
MAP_SENTENCES = 1000
PROJECTIONS = ("pca", "tsne")


def spaces(subject: Subject, vectors: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return unit vectors of the base space and, where there is one, of the rank space."""
    found = {"base": vectors}
    if subject.form is not None:
        found["ranks"] = subject.form(vectors)
    return found


def describe_space(subject: Subject, pair_set: PairSet) -> dict[str, dict[str, float | None]]:
    """Return uniformity, alignment, hubness and spread of base and rank space on the sentences of a set.

    Uniformity and hubness are of the distinct sentences; alignment is of the pairs with a gold score above 4
    of 5, as in the paper.
    """
    texts = pair_set.sentences
    positive = torch.tensor(positive_pairs(pair_set, texts))
    found: dict[str, dict[str, float | None]] = {}
    for name, rows in spaces(subject, subject.encoder(texts)).items():
        found[name] = {
            "uniformity": uniformity(rows),
            "alignment": alignment(rows[positive[:, 0]], rows[positive[:, 1]]) if len(positive) else None,
            "hubness": hubness(rows),
            **spread(rows)._asdict(),
            "sentences": len(texts),
            "positive_pairs": len(positive),
        }
    return found


def positive_pairs(pair_set: PairSet, texts: list[str]) -> list[list[int]]:
    """Return the numbers of the sentences of each positive pair, where both are among the texts."""
    place = {text: i for i, text in enumerate(texts)}
    return [
        [place[pair.a], place[pair.b]]
        for pair, score in zip(pair_set.pairs, pair_set.scaled, strict=True)
        if score > POSITIVE and pair.a in place and pair.b in place
    ]


def draw_map(subject: Subject, pair_set: PairSet, projection: str) -> dict[str, Any]:
    """Place up to 1,000 sentences of a set in the plane, once by base and once by rank vectors.

    :param projection: "pca" or "tsne", the latter on cosine distances.
    :return: The sentences, their places in both spaces, and which of them are positive pairs.
    """
    texts = pair_set.sentences
    if len(texts) > MAP_SENTENCES:
        drawn = np.random.default_rng(0).choice(len(texts), MAP_SENTENCES, replace=False)
        texts = [texts[i] for i in sorted(drawn)]
    found = spaces(subject, subject.encoder(texts))
    points = {name: project(rows, projection).round(4).tolist() for name, rows in found.items()}
    return {
        "projection": projection,
        "sentences": texts,
        "points": points,
        "links": positive_pairs(pair_set, texts),
    }


def project(vectors: torch.Tensor, projection: str) -> np.ndarray:
    """Place unit vectors in the plane."""
    rows = vectors.double().cpu().numpy()
    if projection == "pca":
        from sklearn.decomposition import PCA

        number = min(2, *rows.shape)
        return np.pad(PCA(number, random_state=0).fit_transform(rows), ((0, 0), (0, 2 - number)))
    from sklearn.manifold import TSNE

    perplexity = min(30, (len(rows) - 1) / 3)
    made = TSNE(2, metric="cosine", perplexity=perplexity, random_state=0, init="pca")
    return np.asarray(made.fit_transform(rows))


def turned(points: np.ndarray, onto: np.ndarray) -> np.ndarray:
    """Turn and mirror a map, which changes no distance, so that it resembles another as much as can be."""
    left, _, right = np.linalg.svd((points - points.mean(axis=0)).T @ (onto - onto.mean(axis=0)))
    return np.asarray(points @ (left @ right))
