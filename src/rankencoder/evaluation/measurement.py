"""Measure one model for `evaluate`: scores, the choice of a similarity, time and memory."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rankencoder.blend import blend_vectors, blended_dimension
from rankencoder.encoders import unit
from rankencoder.errors import InputError, located
from rankencoder.evaluation.choice import choose_similarity
from rankencoder.evaluation.pair_metrics import YES_NO, yes_no_figures
from rankencoder.evaluation.results import average
from rankencoder.evaluation.statistics import set_seed

if TYPE_CHECKING:
    from rankencoder.evaluation.results import Result
    from rankencoder.evaluation.sts_data import PairSet
    from rankencoder.evaluation.subjects import Model, Subject

_DIGITS = 6  # decimals of a stored similarity
_TIMED = 512  # sentences


def measure(
    model: Model, sets: Sequence[PairSet], own: Sequence[PairSet], tasks: Collection[str], *, progress: bool
) -> Result:
    """Score a model on all sets, and take the other requested measurements.

    :param own: The user's own sets among these; without any, STS-B dev chooses the similarity.
    """
    found: Result = {"sts": _score(model, sets, progress=progress)}
    if "choice" in tasks:
        dev = own or [pair_set for pair_set in sets if pair_set.name == "STS-B dev"]
        ranked = [subject for subject in model.subjects if subject.form is not None and dev]
        found["choice"] = {subject.role: _choose(subject, dev) for subject in ranked}
    if "cost" in tasks:
        texts = next((s for s in sets if s.name == "STS-B"), sets[-1]).sentences[:_TIMED]
        found["cost"] = {subject.role: _measure_cost(subject, texts) for subject in model.subjects}
    return found


def _score(model: Model, sets: Sequence[PairSet], *, progress: bool) -> dict[str, Any]:
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
                system["similarities"][pair_set.name] = similarities.round(_DIGITS).tolist()
    for system in systems.values():
        system["AVG"] = {"all": average(system["scores"])}
    return systems


def aggregate(pair_set: PairSet, similarities: np.ndarray) -> dict[str, Any]:
    """Return the score ×100 of a set with subsets: Spearman's correlation, or average precision of labels.

    "all" is one correlation over all pairs, as the field reports it. Yes/no labels have more figures.
    """
    gold, metric, weights = pair_set.gold, pair_set.metric, pair_set.weights
    subsets: dict[str, float] = {}
    start = 0
    for name, pairs in pair_set.subsets.items():
        rows = slice(start, start := start + len(pairs))
        where = pair_set.name if len(pair_set.subsets) == 1 else f"{pair_set.name}, {name}"
        with located(where):
            subsets[name] = 100 * metric.score(gold[rows], similarities[rows], weights[rows])
    more = {}
    if metric is YES_NO:
        more["yes_no"] = yes_no_figures(gold, similarities, weights, set_seed(pair_set.name))
    return {"all": 100 * metric.score(gold, similarities, weights), "subsets": subsets, **more}


def _choose(subject: Subject, sets: Sequence[PairSet]) -> dict[str, Any]:
    """Return the choice of a similarity, or a sentence that says why there is none."""
    assert subject.form is not None
    pairs = {pair_set.name: pair_set.pairs for pair_set in sets}
    try:
        return choose_similarity(subject.encoder, subject.form, subject.rank_weight, pairs).to_dict()
    except InputError as error:
        return {"sentence": f"No similarity was chosen: {error}."}


def _measure_cost(subject: Subject, sentences: list[str]) -> dict[str, Any]:
    """Return the milliseconds per sentence of the encoder and of its rank part, and the bytes they need.

    ``total_ms`` is the sum of the two in the median round.
    """
    form, device = subject.form, subject.encoder.device
    times = sorted((_time_parts(subject, sentences) for _ in range(3)), key=sum)[1]
    model, rank_part = (round(1000 * seconds / len(sentences), 6) for seconds in times)
    found: dict[str, Any] = {
        "sentences": len(sentences),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        "threads": torch.get_num_threads(),
        "model_ms": model,
        "total_ms": model,
    }
    if form is not None:
        part = subject.sentences[:: max(1, len(subject.sentences) // _TIMED)][:_TIMED]
        rate = _time_parts(subject, part)[0] / len(part)
        found["form_ms"], found["total_ms"] = rank_part, round(model + rank_part, 6)
        found["reference_seconds"] = rate * len(subject.sentences)
        found["reference_bytes"] = form.reference.numel() * form.reference.element_size()
        found["form_bytes"] = sum(t.numel() * t.element_size() for t in form.tensors().values())
        dimensions = form.dimension, form.reference.shape[1]
        found["vector_bytes"] = 4 * blended_dimension(*dimensions, subject.rank_weight)
    return found


def _time_parts(subject: Subject, sentences: list[str]) -> tuple[float, float]:
    """Return the seconds that the encoder takes, and those of the rank part."""
    device = subject.encoder.device

    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    began = now()
    vectors = subject.encoder.encode_now(sentences)
    encoded = now()
    if subject.form is not None:
        base = unit(vectors)
        blend_vectors(subject.form(base), base, subject.rank_weight)
    return encoded - began, now() - encoded
