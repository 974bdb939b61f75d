"""What an encoder's space looks like on its reference corpus, and what that advises. No labels, no choice."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rankencoder.evaluation.statistics import hubness, spread, uniformity
from rankencoder.ranks import MEMORY_BUDGET
from rankencoder.tuning.candidates import rank_form

if TYPE_CHECKING:
    import torch

    from rankencoder.model import RankEncoder

SENTENCES = 4000
"""Reference sentences that are looked at: hubness grows with their number, so compare like with like."""

NARROW, WIDE = -2.0, -3.0
"""Uniformity above which a space counts as narrow, and below which as well spread."""

_MEASURED = (
    "This rule of thumb rests on few encoders. Of one small BERT, untrained and after SimCSE (three seeds; "
    "uniformity −0.1 and −1.7), centred power −0.25 gained 6 and 0.9 points of the average over seven STS "
    "sets, and ranks alone lost 6 and 5; of a supervised one (all-MiniLM-L6-v2, uniformity −3.8), nothing "
    "beat plain cosine. The paper reports gains from ranks at weight 0.1 with better unsupervised encoders."
)


@dataclass(frozen=True)
class Diagnosis:
    """The shape of an encoder's space.

    :param sentences: How many reference sentences were looked at.
    :param dimension: The encoder's numbers per sentence.
    :param uniformity: Wang and Isola's: near 0, all vectors are alike; −4 is about as spread as can be.
    :param hubness: Skewness of how often a sentence is among the ten nearest of the others.
    :param rank_hubness: The same by rank similarity.
    :param effective_rank: Directions that the variance spreads over.
    :param first_share: Share of the variance in the first direction.
    :param first_ten_share: Share of the variance in the first ten.
    :param mean_norm: Length of the mean vector: near 1, all vectors point the same way.
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

    @property
    def advice(self) -> str:
        """What to do, as far as can be said without scored pairs."""
        return advise(self)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {**asdict(self), "advice": self.advice}

    def __str__(self) -> str:
        return textwrap.fill(self.advice, 100)


def diagnose(model: RankEncoder) -> Diagnosis:
    """Look at a model's reference vectors, and at their rank vectors in whatever rank form it has."""
    form = rank_form(model.form)
    number = min(SENTENCES, max(2, MEMORY_BUDGET // (4 * form.dimension)))
    vectors = _some(model.form.reference, number)
    return Diagnosis(
        sentences=len(vectors),
        dimension=vectors.shape[1],
        uniformity=uniformity(vectors),
        hubness=hubness(vectors),
        rank_hubness=hubness(form(vectors)),
        **spread(vectors)._asdict(),
    )


def advise(found: Diagnosis) -> str:
    """Say what our measurements advise for a space like this; the only place that holds the rule."""
    uniformity = f"uniformity {found.uniformity:.1f}".replace("-", "−")
    if found.uniformity > NARROW:
        shape = f"The space is narrow ({uniformity}), as those of unsupervised encoders often are"
        advice = "centred power −0.25 (the linear form, rank weight 1) is worth trying"
    elif found.uniformity < WIDE:
        shape = f"The space is well spread ({uniformity})"
        advice = "plain cosine is the safe choice"
    else:
        shape = f"The space is between those that we have measured ({uniformity})"
        advice = "plain cosine, and centred power −0.25 (the linear form, rank weight 1) as an attempt"
    return (
        f"{shape}: {advice}. Nothing was chosen, for without labels nothing can be proved: some hundreds of "
        f"scored pairs would decide it. {_MEASURED}"
    )


def _some(vectors: torch.Tensor, number: int) -> torch.Tensor:
    """Return some rows, spread evenly."""
    import torch

    if len(vectors) <= number:
        return vectors
    return vectors[(torch.arange(number, device=vectors.device) * len(vectors)) // number]
