"""The similarities to choose from: plain cosine, ranks, powers of the covariance, and their blends."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.blend import blend

if TYPE_CHECKING:
    from rankencoder.evaluation.pairwise import PairVectors
    from rankencoder.forms import Form
    from rankencoder.model import RankEncoder

WEIGHTS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)  # λ of the ranks
CENTRED_POWERS = (-0.5, -0.375, -0.25, -0.125, 0.0)  # of the linear form
POWERS = (-0.25, -0.125, 0.125, 0.25, 0.5)  # the same, not centred
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
        """What to call it.

        >>> Candidate("linear", {"power": -0.25, "center": True}, 0.5).name
        'power −0.25, centred, weight 0.5'
        """
        if self.is_cosine:
            return "plain cosine"
        if self.form == "linear":
            what = f"power {self.settings['power']:+g}".replace("-", "−")
            what += ", centred" if self.settings["center"] else ""
            return what if self.rank_weight == 1 else f"{what}, weight {self.rank_weight:g}"
        return "ranks alone" if self.rank_weight == 1 else f"ranks, weight {self.rank_weight:g}"

    def uses(self, form: Form) -> bool:
        """Say whether this is a similarity by a given form."""
        return (self.form, self.settings) == (form.name, form.config())

    def fit(self, form: Form) -> Form:
        """Return this candidate's form on the reference vectors of a fitted one."""
        from rankencoder.forms import fit_form

        assert self.form is not None
        return form if self.uses(form) else fit_form(self.form, form.reference, **self.settings)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the name."""
        return {"name": self.name, **asdict(self)}


COSINE = Candidate()


def candidates_for(form: Form, rank_weight: float) -> list[Candidate]:
    """Return what can be chosen: plain cosine first, ranks, powers, and the present form and weight.

    The ranks are in the present form, or in the compact one where it is linear.
    """
    ranked = rank_form(form)
    ranks = [Candidate(ranked.name, ranked.config(), weight) for weight in WEIGHTS]
    linear = [
        Candidate("linear", {"power": power, "center": center}, weight)
        for center, powers in ((True, CENTRED_POWERS), (False, POWERS))
        for power in powers
        for weight in POWER_WEIGHTS
    ]
    found = [COSINE, *ranks, *linear]
    present = Candidate(form.name, form.config(), rank_weight)
    return found if present in found or present.is_cosine else [*found, present]


def rank_form(form: Form) -> Form:
    """Return a form of ranks: the given one, or for a linear one, which has no ranks, the compact one."""
    from rankencoder.forms import fit_form

    return form if form.name != "linear" else fit_form("compact", form.reference)


def candidate_similarities(form: Form, candidates: list[Candidate], encoded: PairVectors) -> np.ndarray:
    """Return every candidate's similarity of every pair, ``[candidates, pairs]``."""
    from rankencoder.evaluation.pairwise import pair_similarities

    cosine = pair_similarities(None, encoded)
    found = np.empty((len(candidates), len(cosine)))
    parts = {repr((None, {})): cosine}
    for row, candidate in zip(found, candidates, strict=True):
        key = repr((candidate.form, candidate.settings))
        if key not in parts:
            parts[key] = pair_similarities(candidate.fit(form), encoded)
        row[:] = blend(parts[key], cosine, candidate.rank_weight)
    return found


def apply_candidate(model: RankEncoder, candidate: Candidate) -> RankEncoder:
    """Return a model whose similarity is the candidate's; the given one stays as it is."""
    if candidate.form is None or candidate.uses(model.form):
        changed = copy.copy(model)
    else:
        changed = model.with_form(candidate.form, **candidate.settings)
    changed.rank_weight = candidate.rank_weight
    return changed
