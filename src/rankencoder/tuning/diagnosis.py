"""What an encoder's space looks like on its reference corpus, and what that advises. No labels, no choice."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rankencoder.evaluation.candidates import rank_form
from rankencoder.evaluation.halves import LOOKED_AT, Halves, evenly, half_advice, score_half_matching
from rankencoder.evaluation.statistics import hubness, spread, uniformity
from rankencoder.ranks import MEMORY_BUDGET

if TYPE_CHECKING:
    from rankencoder.model import RankEncoder

_MEASURED = (
    "Over 89 encoders of 19 families, each with a threshold fitted on the other families, this advice gained "
    "1.8 points of the average over seven STS sets (0.6 to 3.5), and made 3 worse by more than half a point, "
    "by 0.7 at worst; what it looks at was decided by looking at these encoders. Ranks alone were worse than "
    "plain cosine with 86 of them."
)
"""A test compares it with results/when.json."""


@dataclass(frozen=True)
class Diagnosis:
    """The shape of an encoder's space, on some of its reference sentences.

    :param uniformity: Wang and Isola's: near 0, all vectors are alike; −4 is about as spread as can be.
    :param hubness: Skewness of how often a sentence is among the ten nearest of the others.
    :param effective_rank: Directions that the variance spreads over; the shares are those of the first ones.
    :param mean_norm: Length of the mean vector: near 1, all vectors point the same way.
    :param halves: How well similarities know which halves of sentences belong together.
    """

    sentences: int
    dimension: int
    uniformity: float
    hubness: float
    rank_hubness: float
    effective_rank: float
    first_share: float
    first_ten_share: float
    mean_norm: float
    halves: Halves | None

    @property
    def advice(self) -> str:
        """What to do, as far as can be said without scored pairs."""
        return advise(self.halves)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        halves = self.halves and self.halves.to_dict()
        return {**asdict(self), "halves": halves, "advice": self.advice}


def diagnose(model: RankEncoder) -> Diagnosis:
    """Look at a model's reference vectors, at their rank vectors, and at halves of their sentences."""
    form = rank_form(model.form)
    number = min(LOOKED_AT, max(2, MEMORY_BUDGET // (4 * form.dimension)))
    vectors = evenly(model.form.reference, number)
    return Diagnosis(
        sentences=len(vectors),
        dimension=vectors.shape[1],
        uniformity=uniformity(vectors),
        hubness=hubness(vectors),
        rank_hubness=hubness(form(vectors)),
        **spread(vectors)._asdict(),
        halves=score_half_matching(model.encoder, model.reference.sentences, model.form.reference),
    )


def advise(halves: Halves | None) -> str:
    """Say which similarity to use, as far as can be said without labels."""
    told = (
        f"{half_advice(halves)} Nothing was chosen, for without labels nothing can be proved: some hundreds "
        "of scored pairs would decide it."
    )
    return told if halves is None else f"{told} {_MEASURED}"
