"""Describe a space of sentence vectors: uniformity, alignment (the paper's Table 2), hubness, spread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from pair_groups import scaled
from scipy.stats import skew

from rankencoder.evaluation.sts_data import PairSet
from rankencoder.evaluation.subjects import Subject

POSITIVE = 0.8  # gold/5 above this is a positive pair: more than 4 of 5
_CHUNK = 2**22  # values at a time


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
    """Return the places of the sentences of each positive pair, where both are among the texts."""
    place = {text: i for i, text in enumerate(texts)}
    return [
        [place[pair.a], place[pair.b]]
        for pair, score in zip(pair_set.pairs, scaled(pair_set), strict=True)
        if score > POSITIVE and pair.a in place and pair.b in place
    ]


def alignment(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return the mean squared distance of paired unit vectors (Wang and Isola, α = 2); lower is better."""
    return float((a.double() - b.double()).square().sum(dim=1).mean())


def uniformity(vectors: torch.Tensor) -> float:
    """Return log mean exp(−2‖x−y‖²) over all pairs of unit vectors (Wang and Isola, t = 2); lower is better.

    >>> import torch
    >>> round(uniformity(torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])), 7)
    -4.396349
    """
    total, number = 0.0, len(vectors)
    for start, cosines in _similarities(vectors):
        weights = (4 * cosines.double() - 4).exp()
        later = weights.triu(diagonal=start + 1)  # each pair once: those after the row's own place
        total += float(later.sum())
    return float(np.log(total / (number * (number - 1) / 2)))


def hubness(vectors: torch.Tensor, k: int = 10) -> float:
    """Return the skewness of how often a vector is among the k nearest of the others (Radovanović et al.).

    0 where all are so equally often; large where a few vectors, the hubs, are near to everything.
    """
    occurrences = torch.zeros(len(vectors), dtype=torch.int64)
    k = min(k, len(vectors) - 1)
    for start, cosines in _similarities(vectors):
        rows = torch.arange(len(cosines))
        cosines[rows, rows + start] = -2
        near = cosines.topk(k, dim=1).indices.flatten().cpu()
        occurrences += torch.bincount(near, minlength=len(vectors))
    return float(skew(occurrences.numpy()))


def _similarities(vectors: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield the inner products of some rows with all, and the number of the first of them."""
    step = max(1, _CHUNK // len(vectors))
    for start in range(0, len(vectors), step):
        yield start, vectors[start : start + step] @ vectors.T


class Spread(NamedTuple):
    """How the variance of a set of vectors spreads over directions."""

    effective_rank: float
    first_share: float
    first_ten_share: float
    mean_norm: float


def spread(vectors: torch.Tensor) -> Spread:
    """Describe the covariance of unit vectors.

    The effective rank is exp of the entropy of the covariance's eigenvalues (Roy and Vetterli); the shares
    are those of the first and the first ten directions in the variance; the mean norm is the length of the
    mean vector: near 1, all vectors point the same way.
    """
    rows = vectors.double().cpu()
    mean = rows.mean(dim=0)
    values = np.linalg.svd((rows - mean).numpy(), compute_uv=False) ** 2
    shares = values / max(values.sum(), 1e-300)
    positive = shares[shares > 0]
    entropy = -(positive * np.log(positive)).sum()
    return Spread(float(np.exp(entropy)), float(shares[0]), float(shares[:10].sum()), float(mean.norm()))
