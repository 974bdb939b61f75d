"""The demo's task: find each function's docstring by its name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from rankencoder.blend import blend
from rankencoder.evaluation.statistics import Interval, mean_interval

if TYPE_CHECKING:
    from rankencoder.demo.docstrings import Function
    from rankencoder.encoders import Encoder
    from rankencoder.model import RankEncoder

WEIGHTS = (0.1, 0.3)


@dataclass(frozen=True)
class Result:
    """How well one similarity finds the right purpose, and its difference from the first one's.

    :param first: Share of the functions whose own purpose is the nearest.
    :param reciprocal_rank: Mean reciprocal rank of a function's own purpose.
    :param gain: Gain in mean reciprocal rank, with its 95% bootstrap interval.
    """

    name: str
    first: float
    reciprocal_rank: float
    gain: Interval


def score_encoders(encoders: Mapping[str, Encoder], tasks: list[Function]) -> list[Result]:
    """Score the cosines of several encoders."""
    vectors = ((name, *_encode(encoder, tasks)) for name, encoder in encoders.items())
    return _score((name, names @ purposes.T) for name, names, purposes in vectors)


def score_ranks(model: RankEncoder, tasks: list[Function]) -> list[Result]:
    """Score plain cosine first, then blends and ranks."""
    names, purposes = _encode(model.encoder, tasks)
    cosine, ranks = names @ purposes.T, model.form(names) @ model.form(purposes).T
    blends = {f"blend, weight {weight}": blend(ranks, cosine, weight) for weight in WEIGHTS}
    return _score({"plain cosine": cosine, **blends, "ranks alone": ranks}.items())


def reciprocal_ranks(similarity: torch.Tensor) -> np.ndarray:
    """Return 1/rank of each row's own column; ties count against it.

    >>> reciprocal_ranks(torch.tensor([[0.9, 0.1, 0.1], [0.5, 0.5, 0.1], [0.3, 0.2, 0.1]])).round(2).tolist()
    [1.0, 0.5, 0.33]
    """
    return np.asarray(1 / (similarity >= similarity.diagonal()[:, None]).sum(dim=1).cpu().numpy())


def _encode(encoder: Encoder, tasks: list[Function]) -> tuple[torch.Tensor, torch.Tensor]:
    return encoder([task.name for task in tasks]), encoder([task.purpose for task in tasks])


def _score(similarities: Iterable[tuple[str, torch.Tensor]]) -> list[Result]:
    found = [(name, reciprocal_ranks(similarity)) for name, similarity in similarities]
    return [
        Result(name, float((each == 1).mean()), float(each.mean()), mean_interval(each - found[0][1]))
        for name, each in found
    ]
