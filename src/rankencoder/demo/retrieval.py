"""The demo's task: find each function's purpose by its name, and see which similarity finds it best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from rankencoder.blend import blend
from rankencoder.evaluation.statistics import Interval, mean_interval
from rankencoder.forms import fit_form

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankencoder.demo.docstrings import Function
    from rankencoder.model import RankEncoder

POWERS = (-0.5, -0.25, 0.25, 0.5)
WEIGHTS = (0.1, 0.3)


@dataclass(frozen=True)
class Result:
    """How well one similarity finds the right purpose, and its difference from plain cosine."""

    name: str
    first: float
    reciprocal_rank: float
    gain: Interval


def score(model: RankEncoder, tasks: list[Function]) -> list[Result]:
    """Score plain cosine first, then ranks, blends and powers, with 95% bootstrap intervals of the gain."""
    names = model.encoder([task.name for task in tasks])
    purposes = model.encoder([task.purpose for task in tasks])
    results = []
    cosine: np.ndarray | None = None
    for label, similarity in _similarities(model, names, purposes):
        position = (similarity >= similarity.diagonal()[:, None]).sum(dim=1)
        reciprocal = 1 / position.cpu().numpy()
        cosine = reciprocal if cosine is None else cosine
        gain = mean_interval(reciprocal - cosine)
        first = float((position == 1).double().mean())
        results.append(Result(label, first, float(reciprocal.mean()), gain))
    return results


def _similarities(
    model: RankEncoder, names: torch.Tensor, purposes: torch.Tensor
) -> Iterator[tuple[str, torch.Tensor]]:
    cosine = names @ purposes.T
    ranks = model.form(names) @ model.form(purposes).T
    yield "plain cosine", cosine
    for weight in WEIGHTS:
        yield f"blend, weight {weight}", blend(ranks, cosine, weight)
    yield "ranks alone", ranks
    for power in POWERS:
        form = fit_form("linear", model.form.reference, power=power)
        yield (
            f"power {power:+.2f}" + (", centred" if form.config()["center"] else ""),
            form(names) @ form(purposes).T,
        )
