"""Sets of pairs: Spearman's correlation as the field reports it, and what yes/no labels call for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.errors import located
from rankencoder.evaluation.binary_pairs import yes_no_figures
from rankencoder.evaluation.pair_metrics import YES_NO
from rankencoder.evaluation.sts_data import SEVEN

if TYPE_CHECKING:
    from rankencoder.evaluation.sts_data import PairSet
    from rankencoder.evaluation.subjects import Model

DIGITS = 6  # of a stored similarity


def score_sts(model: Model, sets: Sequence[PairSet], *, progress: bool = False) -> dict[str, Any]:
    """Return, for each similarity of a model, its scores and similarities by set."""
    systems: dict[str, dict[str, Any]] = {}
    for subject in model.subjects:
        names = subject.similarity_names()
        for pair_set in sets:
            found = subject.similarities(pair_set, progress=progress)
            for kind, similarities in found.items():
                about = {"encoder": subject.role, "kind": kind, "scores": {}, "similarities": {}}
                system = systems.setdefault(names[kind], about)
                system["scores"][pair_set.name] = aggregate(pair_set, similarities)
                system["similarities"][pair_set.name] = similarities.round(DIGITS).tolist()
    for system in systems.values():
        system["AVG"] = {"all": average(system["scores"])}
    return systems


def aggregate(pair_set: PairSet, similarities: np.ndarray) -> dict[str, Any]:
    """Return the score ×100 of a set with sub-sets: Spearman's correlation, or average precision of labels.

    "all" is one correlation over all pairs, as the field reports it. Yes/no labels have more figures.
    """
    gold, metric = pair_set.gold, pair_set.metric
    subsets: dict[str, float] = {}
    start = 0
    for name, pairs in pair_set.subsets.items():
        rows = slice(start, start := start + len(pairs))
        where = pair_set.name if len(pair_set.subsets) == 1 else f"{pair_set.name}, {name}"
        with located(where):
            subsets[name] = 100 * metric.score(gold[rows], similarities[rows])
    more = {"yes_no": yes_no_figures(gold, similarities)} if metric is YES_NO else {}
    return {
        "all": 100 * metric.score(gold, similarities),
        "subsets": subsets,
        **more,
    }


def average(scores: dict[str, dict[str, Any]]) -> float | None:
    """Return the mean over the seven sets, each rounded as in the field's tables; None if one is missing."""
    if not all(name in scores for name in SEVEN):
        return None
    return float(np.mean([round(scores[name]["all"], 2) for name in SEVEN]))
