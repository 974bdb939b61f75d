"""Gains with their uncertainty: each encoder's ranks and blend over its own cosine, and model against model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankencoder.report.views import View, averaged_sets, set_order

if TYPE_CHECKING:
    from rankencoder.evaluation.statistics import Interval

_KINDS = ("ranks", "blend")


@dataclass(frozen=True)
class Gain:
    """How much better one similarity is than another.

    :param over: What it is compared with, in words.
    :param sets: By set, in points.
    :param means: The mean over several sets, by what to call them.
    """

    view: View
    kind: str
    over: str
    sets: dict[str, Interval]
    means: dict[str, Interval]


def own_gains(views: Sequence[View]) -> list[Gain]:
    """Compare ranks and blend of each encoder with its cosine, set by set and on average."""
    found = []
    for view in views:
        for kind in _KINDS:
            if kind in view.rows:
                found.append(_gain(view, kind, view, by_set=True))
    return found


def gains_over_first(views: Sequence[View]) -> list[Gain]:
    """Compare the others' cosine and blend with the cosine of the first encoder, on average."""
    scored = [view for view in views if "cosine" in view.rows]
    gains = [
        _gain(view, kind, scored[0], by_set=False)
        for view in scored[1:]
        for kind in ("cosine", "blend")
        if kind in view.rows
    ]
    return [gain for gain in gains if gain.means]


def _gain(view: View, kind: str, base: View, *, by_set: bool) -> Gain:
    row, other = view.rows[kind], base.rows["cosine"]
    shared = [name for name in set_order(list(row.golds)) if name in other.golds]
    sets = {name: row.gain_over(other, [name]) for name in shared} if by_set else {}
    means = {}
    for called, names in averaged_sets(shared).items() if shared else ():
        means[called] = row.gain_over(other, names) if len(names) != 1 or not by_set else sets[names[0]]
    return Gain(
        view,
        kind,
        f"{base.name}, cosine",
        {name: gain for name, gain in sets.items() if gain is not None},
        {name: gain for name, gain in means.items() if gain is not None},
    )
