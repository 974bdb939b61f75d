"""Gains with their uncertainty: of ranks and blend over an encoder's own cosine, and of model over model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankencoder.evaluation.result_rows import averaged_sets
from rankencoder.evaluation.statistics import Interval
from rankencoder.report.encoder_views import View, set_order


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


def all_gains(views: Sequence[View]) -> tuple[list[Gain], list[Gain]]:
    """Compare ranks and blend of each encoder with its own cosine, and all encoders with the first.

    :return: The gains over one's own cosine; the gains of the others' cosine and blend over the cosine of the
        first encoder.
    """
    own = [_gain(view, kind, view) for view in views for kind in ("ranks", "blend") if kind in view.rows]
    scored = [view for view in views if "cosine" in view.rows]
    others = [(view, kind) for view in scored[1:] for kind in ("cosine", "blend") if kind in view.rows]
    over_first = [_gain(view, kind, scored[0]) for view, kind in others]
    return own, [gain for gain in over_first if gain.means]


def _gain(view: View, kind: str, base: View) -> Gain:
    """Compare a similarity with a cosine, on the sets whose pairs both have scored."""
    row, other = view.rows[kind], base.rows["cosine"]
    names = set_order(list(row.golds))
    sets = {name: gain for name in names if (gain := row.gain_over(other, [name])) is not None}
    groups = averaged_sets(list(sets)) if sets else {}
    means = {called: gain for called, names in groups.items() if (gain := row.gain_over(other, names))}
    return Gain(view, kind, f"{base.name}, cosine", sets, means)
