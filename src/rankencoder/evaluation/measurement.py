"""What `evaluate` measures of one model: scores, the choice of a similarity, cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rankencoder.errors import InputError
from rankencoder.evaluation.choice import choose_similarity
from rankencoder.evaluation.cost_figures import measure_cost
from rankencoder.evaluation.sts_figures import score_sts

if TYPE_CHECKING:
    from rankencoder.evaluation.results import Result
    from rankencoder.evaluation.sts_data import PairSet
    from rankencoder.evaluation.subjects import Model, Subject


def measure(
    model: Model, sets: Sequence[PairSet], own: Sequence[PairSet], sections: Sequence[str], *, progress: bool
) -> Result:
    """Score a model on all sets, and measure the other sections that are asked for.

    :param own: Those of the sets that are the user's; without any, STS-B dev chooses the similarity.
    """
    found: Result = {"sts": score_sts(model, sets, progress=progress)}
    if "choice" in sections:
        dev = own or [pair_set for pair_set in sets if pair_set.name == "STS-B dev"]
        ranked = [subject for subject in model.subjects if subject.form is not None and dev]
        found["choice"] = {subject.role: _choose(subject, dev) for subject in ranked}
    if "cost" in sections:
        texts = next((s for s in sets if s.name == "STS-B"), sets[-1]).sentences
        found["cost"] = {subject.role: measure_cost(subject, texts) for subject in model.subjects}
    return found


def _choose(subject: Subject, sets: Sequence[PairSet]) -> dict[str, Any]:
    """Return the choice of a similarity, or a sentence that says why there is none."""
    assert subject.form is not None
    pairs = {pair_set.name: pair_set.pairs for pair_set in sets}
    try:
        return choose_similarity(subject.encoder, subject.form, subject.rank_weight, pairs).to_dict()
    except InputError as error:
        return {"sentence": f"No similarity was chosen: {error}."}
