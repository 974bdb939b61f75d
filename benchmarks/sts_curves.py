"""How scores change with the rank weight, the power and the size of the reference corpus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rankencoder.blend import blend
from rankencoder.evaluation.pairwise import encode_pairs, pair_similarities
from rankencoder.evaluation.sts_data import SEVEN, PairSet
from rankencoder.evaluation.subjects import Subject
from rankencoder.forms import fit_form

WEIGHTS = tuple(round(0.05 * i, 2) for i in range(21))
POWERS = tuple(round(-0.5 + 0.125 * i, 3) for i in range(9))
SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
DRAWS = 3


def rank_weight_curve(
    sets: Sequence[PairSet], cosine: dict[str, np.ndarray], ranks: dict[str, np.ndarray]
) -> dict[str, Any]:
    """Return the score ×100 of Eq. 7 on each set, for rank weights from 0 to 1."""
    scores = {}
    for pair_set in sets:
        parts = ranks[pair_set.name], cosine[pair_set.name]
        scores[pair_set.name] = [
            100 * pair_set.metric.score(pair_set.gold, blend(*parts, weight)) for weight in WEIGHTS
        ]
    return {"x": list(WEIGHTS), "scores": with_average(scores)}


def power_curve(subject: Subject, sets: Sequence[PairSet]) -> dict[str, Any]:
    """Return the score ×100 of cos(Σ^p x, Σ^p y) on each set, centered and not."""
    assert subject.form is not None
    found: dict[str, Any] = {"x": list(POWERS)}
    encoded = [encode_pairs(subject.encoder, pair_set.pairs) for pair_set in sets]
    for name, center in (("centered", True), ("plain", False)):
        forms = [fit_form("linear", subject.form.reference, power=p, center=center) for p in POWERS]
        scores = {
            pair_set.name: [
                100 * pair_set.metric.score(pair_set.gold, pair_similarities(form, some)) for form in forms
            ]
            for pair_set, some in zip(sets, encoded, strict=True)
        }
        found[name] = with_average(scores)
    return found


def reference_size_curve(subject: Subject, pair_set: PairSet) -> dict[str, Any]:
    """Return the score ×100 of rank similarities on a set, for parts of the reference corpus.

    Three random parts of each size, but for the whole: mean and standard deviation.
    """
    assert subject.form is not None
    reference = subject.form.reference
    encoded = encode_pairs(subject.encoder, pair_set.pairs)
    rng = np.random.default_rng(0)
    sizes = [size for size in SIZES if size < len(reference)] + [len(reference)]
    runs = []
    for size in sizes:
        scores = []
        for _ in range(DRAWS if size < len(reference) else 1):
            rows = torch.from_numpy(rng.choice(len(reference), size, replace=False)).to(reference.device)
            form = fit_form("exact", reference[rows.sort().values])
            scores.append(100 * pair_set.metric.score(pair_set.gold, pair_similarities(form, encoded)))
        runs.append(scores)
    return {
        "x": sizes,
        "set": pair_set.name,
        "mean": [float(np.mean(scores)) for scores in runs],
        "std": [float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0 for scores in runs],
        "runs": runs,
    }


def with_average(scores: dict[str, list[float]]) -> dict[str, list[float]]:
    """Add the average of the seven sets, each rounded first as in the field's tables, if all are there."""
    if all(name in scores for name in SEVEN):
        scores = {**scores, "AVG": np.round([scores[name] for name in SEVEN], 2).mean(axis=0).tolist()}
    return scores
