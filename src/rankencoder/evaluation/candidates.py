"""Candidate similarities: plain cosine, ranks, powers of the covariance, and their blends."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.blend import blend
from rankencoder.evaluation.pairwise import PairVectors, pair_similarities
from rankencoder.forms import fit_form

if TYPE_CHECKING:
    from rankencoder.forms import Form

WEIGHTS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)  # λ of the ranks
CENTERED_POWERS = (-0.5, -0.375, -0.25, -0.125, 0.0)  # powers of the linear form
POWERS = (-0.25, -0.125, 0.125, 0.25, 0.5)  # powers without centering
POWER_WEIGHTS = (0.5, 1.0)


@dataclass(frozen=True)
class Candidate:
    """One similarity: λ · the form's + (1 − λ) · cosine, or with no form and λ = 0 plain cosine."""

    form: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    rank_weight: float = 0.0

    @property
    def is_cosine(self) -> bool:
        """Whether this is plain cosine."""
        return self.rank_weight == 0

    @property
    def name(self) -> str:
        """Display name.

        >>> Candidate("linear", {"power": -0.25, "center": True}, 0.5).name
        'power −0.25, centered, weight 0.5'
        """
        if self.is_cosine:
            return "plain cosine"
        if self.form == "linear":
            power, is_centered = self.settings["power"], self.settings["center"]
            what = f"power {power:+g}{', centered' if is_centered else ''}".replace("-", "−")
            what = what if power else "centered cosine"
            return what if self.rank_weight == 1 else f"{what}, weight {self.rank_weight:g}"
        return "ranks alone" if self.rank_weight == 1 else f"ranks, weight {self.rank_weight:g}"

    def uses(self, form: Form) -> bool:
        """Whether the candidate uses this form."""
        return (self.form, self.settings) == (form.name, form.config())

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the name."""
        return {"name": self.name, **asdict(self)}


COSINE = Candidate()


def candidates_for(form: Form, rank_weight: float) -> list[Candidate]:
    """Return the candidates: plain cosine first, then ranks, powers, and the current form and weight.

    The ranks use the current form, or the compact one if that is linear.
    """
    name, settings = ("compact", {}) if form.name == "linear" else (form.name, form.config())
    ranks = [Candidate(name, settings, weight) for weight in WEIGHTS]
    linear = [
        Candidate("linear", {"power": power, "center": center}, weight)
        for center, powers in ((True, CENTERED_POWERS), (False, POWERS))
        for power in powers
        for weight in POWER_WEIGHTS
    ]
    found = [COSINE, *ranks, *linear]
    present = Candidate(form.name, form.config(), rank_weight)
    return found if present in found or present.is_cosine else [*found, present]


def candidate_similarities(form: Form, candidates: list[Candidate], encoded: PairVectors) -> np.ndarray:
    """Return every candidate's similarity of every pair, ``[candidates, pairs]``."""
    cosine = pair_similarities(None, encoded)
    parts = {repr((None, {})): cosine}
    found = []
    for candidate in candidates:
        key = repr((candidate.form, candidate.settings))
        if key not in parts and candidate.form is not None:
            own = candidate.uses(form)
            fitted = form if own else fit_form(candidate.form, form.reference, **candidate.settings)
            parts[key] = pair_similarities(fitted, encoded)
        found.append(blend(parts[key], cosine, candidate.rank_weight))
    return np.array(found)
