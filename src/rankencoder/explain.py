"""Explain a similarity by the reference neighbors that two sentences share (the paper's Figure 1)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch

from rankencoder.blend import blend
from rankencoder.errors import InputError


@dataclass(frozen=True)
class Neighbor:
    """A reference sentence near a query sentence. Rank 1 is the nearest."""

    rank: int
    similarity: float
    sentence: str


@dataclass(frozen=True)
class SharedNeighbor:
    """A reference sentence near both sentences of a pair."""

    sentence: str
    rank_a: int
    rank_b: int
    similarity_a: float
    similarity_b: float


@dataclass(frozen=True)
class Explanation:
    """The similarity of two sentences and the neighbors they share."""

    a: str
    b: str
    cosine: float
    rank_similarity: float
    similarity: float
    rank_weight: float
    k: int
    shared: list[SharedNeighbor]
    neighbors_a: list[Neighbor]
    neighbors_b: list[Neighbor]

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as a dictionary."""
        return asdict(self)


def nearest(vector: torch.Tensor, reference: torch.Tensor, sentences: list[str], k: int) -> list[Neighbor]:
    """Return the k reference sentences with the highest cosine, in descending order."""
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}")
    values, order = (reference @ vector).topk(min(k, len(sentences)))
    rows = zip(values.tolist(), order.tolist(), strict=True)
    return [Neighbor(rank, value, sentences[i]) for rank, (value, i) in enumerate(rows, start=1)]


@dataclass(frozen=True, eq=False)
class EncodedSentence:
    """A sentence with its vector, rank vector and nearest reference sentences."""

    sentence: str
    vector: torch.Tensor
    ranks: torch.Tensor
    neighbors: list[Neighbor]


def explain_pair(a: EncodedSentence, b: EncodedSentence, rank_weight: float, k: int) -> Explanation:
    """Explain a pair of encoded sentences by their k nearest neighbors."""
    near_a, near_b = a.neighbors[:k], b.neighbors[:k]
    cosine, rank_similarity = float(a.vector @ b.vector), float(a.ranks @ b.ranks)
    by_sentence = {n.sentence: n for n in near_b}
    shared = [
        SharedNeighbor(n.sentence, n.rank, m.rank, n.similarity, m.similarity)
        for n in near_a
        if (m := by_sentence.get(n.sentence)) is not None
    ]
    shared.sort(key=lambda s: (s.rank_a + s.rank_b, s.rank_a))
    similarity = blend(rank_similarity, cosine, rank_weight)
    scores = (cosine, rank_similarity, similarity, rank_weight)
    return Explanation(a.sentence, b.sentence, *scores, len(near_a), shared, near_a, near_b)
