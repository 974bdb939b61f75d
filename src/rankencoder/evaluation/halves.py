"""A little similarity test without labels: the two halves of a sentence belong together, others do not.

Which similarity knows that best says something about which to use; how much, `benchmarks/when.py` measures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rankencoder.errors import InputError
from rankencoder.evaluation.pairwise import PairVectors, pair_similarities
from rankencoder.evaluation.statistics import spearman, spread
from rankencoder.forms import fit_form

if TYPE_CHECKING:
    from rankencoder.encoders import Encoder

SENTENCES = 2_000
WORDS = 8  # the fewest of a sentence that is halved
POWERS = (0.0, -0.125, -0.25, -0.375, -0.5)  # centred, that may be advised in place of the plain cosine
HARDLY = 2.0  # points by which a power must know halves better than the cosine to be worth having
# share of the variance in the first ten directions below which powers did harm more often than good: with 26
# encoders of three families, in `results/README.md`
LEAST_SHARE = 0.23
LOOKED_AT = 4_000  # reference vectors: hubness grows with their number, so like goes with like

# a test compares it with results/when.json
_MEASURED = (
    "Over 89 encoders of 19 families, each with a threshold fitted on the other families, this advice gained "
    "1.8 points of the average over seven STS sets (0.6 to 3.5), and made 3 worse by more than half a point, "
    "by 0.7 at worst; what it looks at was decided by looking at these encoders. Ranks alone were worse than "
    "plain cosine with 86 of them."
)


@dataclass(frozen=True)
class Halves:
    """How well cosine and centred powers know which halves belong together (Spearman's correlation, ×100)."""

    sentences: int
    cosine: float
    powers: dict[float, float]
    first_ten_share: float

    @property
    def power(self) -> float | None:
        """The centred power to try, or None: the plain cosine is as good, or safer."""
        best = max(self.powers, key=lambda power: self.powers[power])
        return best if self.is_clear and self.first_ten_share > LEAST_SHARE else None

    @property
    def is_clear(self) -> bool:
        """Whether a power knows halves clearly better than the cosine."""
        return max(self.powers.values()) - self.cosine > HARDLY

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {**asdict(self), "power": self.power}


def halved(sentences: Iterable[str], number: int = SENTENCES) -> list[tuple[str, str]]:
    """Return the two halves of each sentence of eight words or more, of the first so many.

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
    """Return pairs of texts that are related and as many that are not, with how much they are.

    :param vectors: Unit vectors of n texts, then of the text that is related to each.
    """
    number = len(vectors) // 2
    first = np.arange(number)
    others = number + np.roll(first, number // 2)
    pairs = np.concatenate([np.stack([first, second], 1) for second in (number + first, others)])
    gold = np.concatenate([np.asarray(related, dtype=float), np.zeros(number)])
    return PairVectors(vectors, pairs), gold


def score_half_matching(encoder: Encoder, sentences: Sequence[str], reference: torch.Tensor) -> Halves | None:
    """Measure how well cosine and powers know halves of sentences; None if too few can be halved."""
    halves = halved(sentences)
    if len(halves) < SENTENCES // 10:
        return None
    first, second = zip(*halves, strict=True)
    try:
        vectors = torch.cat([encoder(list(first)), encoder(list(second))])
    except InputError:  # of a half without a known word, say
        return None
    pairs, gold = related_pairs(vectors, [1.0] * len(halves))
    powers = {}
    for power in POWERS:
        form = fit_form("linear", reference, power=power, center=True)
        powers[power] = 100 * spearman(gold, pair_similarities(form, pairs))
    cosine = 100 * spearman(gold, pair_similarities(None, pairs))
    return Halves(len(halves), cosine, powers, spread(evenly(reference, LOOKED_AT)).first_ten_share)


def evenly(vectors: torch.Tensor, number: int) -> torch.Tensor:
    """Return some rows, spread evenly."""
    if len(vectors) <= number:
        return vectors
    return vectors[(torch.arange(number, device=vectors.device) * len(vectors)) // number]


def half_advice(halves: Halves | None) -> str:
    """Say what the halves speak for."""
    if halves is None:
        return (
            f"Too few reference sentences have {WORDS} words, or their halves cannot be encoded, to say "
            "anything without labels: plain cosine."
        )
    best = max(halves.powers.values())
    told = (
        f"Which halves of {halves.sentences:,} sentences belong together is known with a correlation of "
        f"{halves.cosine:.1f} by plain cosine and of {best:.1f} by the best centred power"
    )
    if not halves.is_clear:
        return f"{told}, which is no clear gain: it speaks for plain cosine."
    if halves.power is None:
        return (
            f"{told}. But the first ten directions hold {halves.first_ten_share:.1%} of the variance, and "
            f"below {LEAST_SHARE:.0%} powers have mostly done harm: plain cosine."
        )
    power = f"{halves.power:g}".replace("-", "−")
    return f"{told}: it speaks for centred power {power} (the linear form, rank weight 1)."


def advise(halves: Halves | None) -> str:
    """Say which similarity to use, as far as can be said without labels, and how well such advice does."""
    told = (
        f"{half_advice(halves)} Nothing was chosen, for without labels nothing can be proved: some hundreds "
        "of scored pairs would decide it."
    )
    return told if halves is None else f"{told} {_MEASURED}"
