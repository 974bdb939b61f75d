"""Candidate pairs for labeling: a random sample of each bin of similarities."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankencoder.errors import InputError
from rankencoder.io.storage import check_kinds, damage_named, read_json

BINS = 40
PER_BIN = 100  # pairs to ask about per bin
_NEIGHBORS = 10
_ANCHORS = 2000  # sentences whose neighbors are candidates, at most
_BLOCK = 256
_OBVIOUS = 8  # random pairs, to check the labeler
_FORMAT = 1
_ADVICE = "label into a new file"


@dataclass(frozen=True)
class Candidate:
    """A pair that can be asked about.

    :param bin: Its bin of similarities; None for a random pair, which checks the labeler.
    """

    a: str
    b: str
    similarity: float
    bin: int | None = None


@dataclass(frozen=True)
class PairPool:
    """Pairs in random order, by bins of their similarity.

    :param model: The fingerprint of the model; `name` is its display name.
    :param edges: The bins' edges, ``[BINS + 1]``.
    :param population: How many pairs of the corpus are in each bin.
    :param bins: The candidates of each bin, in random order.
    :param obvious: Random pairs of the corpus, which hardly ever mean the same.
    :param seed: Random seed for all draws, now and later.
    :param scale: Sentences of the corpus for each one whose neighbors are candidates.
    """

    model: str
    name: str
    edges: np.ndarray
    population: np.ndarray
    bins: list[list[Candidate]]
    obvious: list[Candidate]
    seed: int = 0
    scale: float = 1.0

    @classmethod
    def of_similarities(
        cls,
        pairs: list[tuple[str, str]],
        similarities: np.ndarray,
        *,
        scale: float = 1.0,
        per_bin: int = PER_BIN,
        **about: Any,
    ) -> PairPool:
        """Make a pool of pairs and their similarities.

        :param pairs: The pairs. One that occurs in both directions counts twice, and is asked once.
        :param scale: How many pairs of the corpus each of these stands for.
        :param per_bin: Maximum number of pairs to ask about per bin.
        """
        rng = np.random.default_rng(about.get("seed", 0))
        edges, places = cut_bins(similarities)
        bins = []
        for number in range(BINS):
            chosen: dict[frozenset[str], Candidate] = {}
            for i in rng.permutation(np.flatnonzero(places == number)):
                a, b = pairs[i]
                chosen.setdefault(frozenset((a, b)), Candidate(a, b, float(similarities[i]), number))
                if len(chosen) == per_bin:
                    break
            bins.append(list(chosen.values()))
        population = np.bincount(places, minlength=BINS) * scale
        return cls(edges=edges, population=population, bins=bins, scale=scale, **about)

    @classmethod
    def of_vectors(cls, texts: list[str], vectors: np.ndarray, *, seed: int = 0, **about: Any) -> PairPool:
        """Make a pool of sentences and their nearest neighbors, given different texts and unit vectors.

        From a large corpus, random sentences are sampled; all others are possible neighbors.
        """
        import torch

        if len(texts) < 3:
            raise InputError(f"cannot draw pairs from {len(texts)} different sentences: use 3 or more")
        rng = np.random.default_rng(seed)
        anchors = rng.permutation(len(texts))[:_ANCHORS]
        rows = torch.from_numpy(vectors)
        flat = [" ".join(text.split()) for text in texts]  # one line, as a labeler and a table see it
        pairs, similarities = [], []
        for start in range(0, len(anchors), _BLOCK):
            block = anchors[start : start + _BLOCK]
            near = (rows[block] @ rows.T).topk(min(_NEIGHBORS + 1, len(texts)), dim=1)
            for i, others, values in zip(block, near.indices.tolist(), near.values.tolist(), strict=True):
                for j, value in zip(others, values, strict=True):
                    if flat[i] != flat[j]:
                        pairs.append((flat[i], flat[j]))
                        similarities.append(value)
        if not pairs:
            raise InputError("cannot draw pairs: all sentences of the corpus differ in spaces only")
        near_pairs = {frozenset(pair) for pair in pairs}
        ends = [(flat[i], flat[j], i, j) for i, j in rng.integers(len(texts), size=(_OBVIOUS, 2))]
        obvious = [
            Candidate(a, b, float(vectors[i] @ vectors[j]))
            for a, b, i, j in ends
            if a != b and frozenset((a, b)) not in near_pairs
        ]
        about |= {"scale": len(texts) / len(anchors), "obvious": obvious, "seed": seed}
        return cls.of_similarities(pairs, np.array(similarities), **about)

    def draw_populations(self) -> np.ndarray | None:
        """Draw possible numbers of pairs in the bins; None where they are known."""
        if self.scale == 1:
            return None
        counts = self.population / self.scale
        return np.random.default_rng(self.seed).gamma(counts, size=(1000, len(counts))) * self.scale

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "format": _FORMAT,
            "model": self.model,
            "name": self.name,
            "seed": self.seed,
            "scale": self.scale,
            "edges": self.edges.tolist(),
            "population": self.population.tolist(),
            "bins": [[[one.a, one.b, one.similarity] for one in row] for row in self.bins],
            "obvious": [[one.a, one.b, one.similarity] for one in self.obvious],
        }

    @classmethod
    def load(cls, path: Path) -> tuple[PairPool, dict[str, Any]]:
        """Read a pool, and the rest of its file."""
        stored = read_json(path, _FORMAT, advice=_ADVICE)
        check_kinds(stored, path, model=str, name=str, seed=int, bins=list)
        kinds = (KeyError, TypeError, ValueError)
        with damage_named(path, "a complete pool of pairs", *kinds, advice=_ADVICE):
            edges, population = (np.array(stored[k], dtype=np.float64) for k in ("edges", "population"))
            bins = [
                [Candidate(a, b, value, number) for a, b, value in of]
                for number, of in enumerate(stored["bins"])
            ]
            numbers = [*edges, *population, *(float(row[2]) for of in stored["bins"] for row in of)]
            if not len(edges) - 1 == len(population) == len(bins) or (np.diff(edges) <= 0).any():
                raise ValueError("bins and their edges do not fit together")
            if not np.isfinite(numbers).all() or (population < 0).any() or not 0 < population.sum() < 1e15:
                raise ValueError("no numbers of pairs")
            obvious = [Candidate(*row) for row in stored["obvious"]]
            scale = max(1.0, float(stored.get("scale", 1.0)))
        pool = cls(stored["model"], stored["name"], edges, population, bins, obvious, stored["seed"], scale)
        return pool, stored


def cut_bins(similarities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges of bins of equal width, ``[BINS + 1]``, and the bin of each similarity."""
    if not np.isfinite(similarities).all():
        raise InputError("some similarities are not finite numbers: check the encoder")
    low, high = float(similarities.min()), float(similarities.max())
    if high - low < 1e-4:
        raise InputError(f"all pairs have the same similarity ({low:.4f}): no threshold can separate them")
    edges = np.linspace(low, high + max(1e-6, 1e-6 * abs(high)), BINS + 1)
    return edges, np.clip(np.searchsorted(edges, similarities, side="right") - 1, 0, BINS - 1)
