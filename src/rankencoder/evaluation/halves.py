"""Compare similarities without labels: halves of one sentence belong together, halves of two do not.

`benchmarks/when.py` measures how well that predicts the best similarity.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rankencoder.errors import InputError
from rankencoder.evaluation.pairwise import PairVectors, pair_similarities
from rankencoder.evaluation.statistics import spearman
from rankencoder.forms import fit_form

if TYPE_CHECKING:
    from rankencoder.encoders import Encoder

SENTENCES = 2_000
WORDS = 8  # minimum words of a sentence to halve
POWERS = (0.0, -0.125, -0.25, -0.375, -0.5)  # centered; alternatives to plain cosine
HARDLY = 2.0  # points by which a power must beat cosine
# share of the variance in the first ten directions below which powers did more harm than good, with 26
# encoders of three families (`results/README.md`)
LEAST_SHARE = 0.23
LOOKED_AT = 4_000  # reference vectors; hubness grows with their number


@dataclass(frozen=True)
class Halves:
    """Spearman's correlation ×100 of cosine and of centered powers with which halves belong together."""

    sentences: int
    cosine: float
    powers: dict[float, float]
    first_ten_share: float

    @property
    def power(self) -> float | None:
        """The centered power to try; None where plain cosine is as good or safer."""
        best = max(self.powers, key=lambda power: self.powers[power])
        is_clear = self.powers[best] - self.cosine > HARDLY
        return best if is_clear and self.first_ten_share > LEAST_SHARE else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {**asdict(self), "power": self.power}


def halved(sentences: Iterable[str], number: int = SENTENCES) -> list[tuple[str, str]]:
    """Return the two halves of each sentence of eight words or more, up to a number of sentences.

    >>> halved(["one two three four five six seven eight nine", "too short"])
    [('one two three four', 'five six seven eight nine')]
    """
    found: list[tuple[str, str]] = []
    for text in sentences:
        words = text.split()
        if len(words) >= WORDS:
            middle = len(words) // 2
            found.append((" ".join(words[:middle]), " ".join(words[middle:])))
        if len(found) == number:
            break
    return found


def related_pairs(vectors: torch.Tensor, related: Sequence[float]) -> tuple[PairVectors, np.ndarray]:
    """Return related pairs and as many unrelated ones, with their gold scores.

    :param vectors: Unit vectors of n texts, then of the text that is related to each.
    """
    number = len(vectors) // 2
    first = np.arange(number)
    others = number + np.roll(first, number // 2)
    pairs = np.concatenate([np.stack([first, second], 1) for second in (number + first, others)])
    gold = np.concatenate([np.asarray(related, dtype=float), np.zeros(number)])
    return PairVectors(vectors, pairs), gold


def score_half_matching(encoder: Encoder, sentences: Sequence[str], reference: torch.Tensor) -> Halves | None:
    """Score cosine and powers on halves of sentences; None if too few can be halved."""
    halves = halved(sentences)
    if len(halves) < SENTENCES // 10:
        return None
    first, second = zip(*halves, strict=True)
    try:
        vectors = torch.cat([encoder(list(first)), encoder(list(second))])
    except InputError:  # for example, a half without a known word
        return None
    pairs, gold = related_pairs(vectors, [1.0] * len(halves))
    powers = {}
    for power in POWERS:
        form = fit_form("linear", reference, power=power, center=True)
        powers[power] = 100 * spearman(gold, pair_similarities(form, pairs))
    cosine = 100 * spearman(gold, pair_similarities(None, pairs))
    return Halves(len(halves), cosine, powers, _first_ten_share(evenly(reference, LOOKED_AT)))


def _first_ten_share(vectors: torch.Tensor) -> float:
    """Return the share of the first ten directions in the variance of vectors."""
    rows = vectors.double().cpu().numpy()
    variances = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False) ** 2
    return float(variances[:10].sum() / max(variances.sum(), 1e-300))


def evenly(vectors: torch.Tensor, number: int) -> torch.Tensor:
    """Return evenly spaced rows."""
    if len(vectors) <= number:
        return vectors
    return vectors[(torch.arange(number, device=vectors.device) * len(vectors)) // number]


def describe_halves(halves: Halves | None) -> str:
    """Recommend a similarity, without labels."""
    if halves is None:
        return (
            f"Keep plain cosine: too few sentences have {WORDS} words to compare similarities without labels."
        )
    if halves.power is None:
        return "Keep plain cosine: without labels, there is no evidence for another similarity."
    power = f"{halves.power:g}".replace("-", "−")
    return (
        f"Try centered power {power}: it matches the two halves of your sentences better than cosine does. "
        "Without labels that is a hint, not a proof."
    )
