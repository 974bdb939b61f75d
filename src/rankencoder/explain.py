"""Why two sentences are similar: their neighbours in the reference corpus, and which of them they share."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rankencoder.blend import blend
from rankencoder.errors import InputError

if TYPE_CHECKING:
    import torch

    from rankencoder.model import RankEncoder


@dataclass(frozen=True)
class Neighbor:
    """A reference sentence near to a sentence. The nearest has rank 1."""

    rank: int
    similarity: float
    sentence: str


@dataclass(frozen=True)
class SharedNeighbor:
    """A reference sentence near to both sentences of a pair."""

    sentence: str
    rank_a: int
    rank_b: int
    similarity_a: float
    similarity_b: float


@dataclass(frozen=True)
class Explanation:
    """How similar two sentences are, and what they have in common."""

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
        """Return all fields as plain data."""
        return asdict(self)


def nearest(vector: torch.Tensor, reference: torch.Tensor, sentences: list[str], k: int) -> list[Neighbor]:
    """Return the k reference sentences with the largest cosine, largest first."""
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}")
    values, order = (reference @ vector).topk(min(k, len(sentences)))
    rows = zip(values.tolist(), order.tolist(), strict=True)
    return [Neighbor(rank, value, sentences[i]) for rank, (value, i) in enumerate(rows, start=1)]


def explain_pair(model: RankEncoder, a: str, b: str, k: int) -> Explanation:
    """Explain a pair of sentences (see `RankEncoder.explain`)."""
    vectors = model._base_vectors([a, b])
    near_a, near_b = (nearest(v, model.form.reference, model.reference.sentences, k) for v in vectors)
    ranks = model.form(vectors)
    cosine, rank_similarity = float(vectors[0] @ vectors[1]), float(ranks[0] @ ranks[1])
    by_sentence = {n.sentence: n for n in near_b}
    shared = [
        SharedNeighbor(n.sentence, n.rank, m.rank, n.similarity, m.similarity)
        for n in near_a
        if (m := by_sentence.get(n.sentence)) is not None
    ]
    shared.sort(key=lambda s: (s.rank_a + s.rank_b, s.rank_a))
    similarity = blend(rank_similarity, cosine, model.rank_weight)
    return Explanation(
        a, b, cosine, rank_similarity, similarity, model.rank_weight, len(near_a), shared, near_a, near_b
    )
