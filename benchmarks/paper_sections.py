"""What the paper measures beside scores: similar pairs, spaces, shared neighbors, curves, transfer tasks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pair_groups import shared_neighbors, similar_pairs
from senteval_scores import score_transfer
from senteval_tasks import TRANSFER_TASKS, TransferTask, read_transfer_task
from sts_curves import power_curve, rank_weight_curve, reference_size_curve
from vector_spaces import describe_space

from rankencoder.blend import blend_vectors
from rankencoder.encoders import unit
from rankencoder.evaluation.sts_data import PairSet
from rankencoder.evaluation.subjects import Model, Subject

SECTIONS = ("similar-pairs", "space", "neighbors", "curves")


def measure_sections(model: Model, sets: Sequence[PairSet], wanted: Sequence[str]) -> dict[str, Any]:
    """Return the wanted `SECTIONS`; spaces and neighbors are those of STS-B, or of the first set."""
    by_name = {pair_set.name: pair_set for pair_set in sets}
    main = by_name.get("STS-B") or sets[0]
    found: dict[str, Any] = {}
    if "space" in wanted:
        close = [one for one in sets if one.name.startswith("STS-B")] or [main]
        found["space"] = {s.name: {one.role: describe_space(one, s) for one in model.subjects} for s in close}
    if set(wanted) - {"space"}:
        similarities = {one.role: {s.name: one.similarities(s) for s in sets} for one in model.subjects}
    if "similar-pairs" in wanted:
        found["similar-pairs"] = {s.name: similar_pairs(s, _systems(model, similarities, s)) for s in sets}
    for one in model.subjects if {"neighbors", "curves"} & set(wanted) else ():
        if one.form is None:
            continue
        parts = {kind: {s.name: similarities[one.role][s.name][kind] for s in sets} for kind in _KINDS}
        if "neighbors" in wanted:
            of_main = (parts[kind][main.name] for kind in _KINDS)
            about = {"set": main.name, **shared_neighbors(one, main, *of_main)}
            found.setdefault("neighbors", {})[one.role] = about
        if "curves" in wanted:
            found.setdefault("curves", {})[one.role] = {
                "rank-weight": rank_weight_curve(sets, *(parts[kind] for kind in _KINDS)),
                "power": power_curve(one, sets),
                "reference-size": reference_size_curve(one, by_name.get("STS-B dev") or main),
            }
    return found


_KINDS = ("cosine", "ranks")


def _systems(model: Model, similarities: dict[str, Any], pair_set: PairSet) -> dict[str, np.ndarray]:
    names = {
        (one.role, kind): name for one in model.subjects for kind, name in one.similarity_names().items()
    }
    return {name: similarities[role][pair_set.name][kind] for (role, kind), name in names.items()}


def measure_transfer(model: Model, data: Path) -> dict[str, Any]:
    """Train classifiers on the encoder's own vectors and, for a RankEncoder, on the blended ones.

    The exact form's are too long for that; of a training, as in the paper, E1 and E2 are what counts.
    """
    tasks = [read_transfer_task(data, name) for name in TRANSFER_TASKS]
    found = {}
    for one in model.subjects:
        names = one.similarity_names()
        blended = one.form is not None and one.form.name != "exact" and not one.role
        for kind in ("cosine", "blend") if blended else ("cosine",):
            encode = partial(_vectors, one, kind == "blend")
            scores = {task.name: _score(task, encode, one) for task in tasks}
            mean = float(np.mean([score["accuracy"] for score in scores.values()]))
            found[names[kind]] = {"tasks": scores, "AVG": mean}
    data_of = {task.name: {"fingerprint": task.fingerprint, "notes": list(task.warnings)} for task in tasks}
    return {"systems": found, "data": data_of}


def _score(task: TransferTask, encode: Any, subject: Subject) -> dict[str, Any]:
    return score_transfer(task, encode, device=subject.encoder.device)


def _vectors(subject: Subject, blended: bool, texts: list[str]) -> torch.Tensor:
    raw = subject.encoder.raw(texts)
    if not blended or subject.form is None:
        return raw
    base = unit(raw)
    return blend_vectors(subject.form(base), base, subject.rank_weight)
