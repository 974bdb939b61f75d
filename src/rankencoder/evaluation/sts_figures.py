"""Semantic textual similarity: Spearman's correlation as the field reports it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.errors import InputError
from rankencoder.evaluation.statistics import spearman
from rankencoder.evaluation.sts_data import SEVEN

if TYPE_CHECKING:
    from rankencoder.evaluation.sts_data import PairSet
    from rankencoder.evaluation.subjects import Model

AGGREGATIONS = ("all", "mean", "wmean")
DIGITS = 6
"""Decimals of a stored similarity."""


def score_sts(model: Model, sets: Sequence[PairSet], *, progress: bool = False) -> dict[str, Any]:
    """Score every similarity of a model on every set.

    :return: For each system its scores and similarities, by set.
    """
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
        system["AVG"] = {how: average(system["scores"], how) for how in AGGREGATIONS}
    return systems


def aggregate(pair_set: PairSet, similarities: np.ndarray) -> dict[str, Any]:
    """Return Spearman's correlation ×100 of a set with sub-sets.

    "all" is one correlation over all pairs, as the field reports it; "mean" the mean of the sub-sets'
    correlations; "wmean" the same, weighted by their numbers of pairs.
    """
    gold = np.array([pair.score for pair in pair_set.pairs])
    subsets: dict[str, float] = {}
    sizes, start = [], 0
    for name, pairs in pair_set.subsets.items():
        rows = slice(start, start := start + len(pairs))
        where = pair_set.name if len(pair_set.subsets) == 1 else f"{pair_set.name}, {name}"
        subsets[name] = _percent(gold[rows], similarities[rows], where)
        sizes.append(len(pairs))
    values = list(subsets.values())
    return {
        "all": _percent(gold, similarities, pair_set.name),
        "mean": float(np.mean(values)),
        "wmean": float(np.average(values, weights=sizes)),
        "subsets": subsets,
    }


def _percent(gold: np.ndarray, similarities: np.ndarray, where: str) -> float:
    try:
        return 100 * spearman(gold, similarities)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def average(scores: dict[str, dict[str, Any]], how: str = "all") -> float | None:
    """Return the mean over the seven sets, each rounded to two decimals as in the field's tables.

    :return: None where one of the seven is missing.
    """
    if not all(name in scores for name in SEVEN):
        return None
    return float(np.mean([round(scores[name][how], 2) for name in SEVEN]))
