"""Gains with their uncertainty: of ranks and blend over an encoder's own cosine, and of model over model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rankencoder.evaluation.results import Row
from rankencoder.evaluation.statistics import Interval, resample, resampled_spearman, spearman
from rankencoder.report.views import View, averaged_sets, set_order

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


def all_gains(views: Sequence[View]) -> tuple[list[Gain], list[Gain]]:
    """Compare ranks and blend of each encoder with its own cosine, and all encoders with the first.

    :return: The gains over one's own cosine; the gains of the others' cosine and blend over the cosine of the
        first encoder.
    """
    bootstrap = _Bootstrap()
    own = [bootstrap.gain(v, kind, v) for v in views for kind in _KINDS if kind in v.rows]
    scored = [view for view in views if "cosine" in view.rows]
    others = [(view, kind) for view in scored[1:] for kind in ("cosine", "blend") if kind in view.rows]
    over_first = [bootstrap.gain(view, kind, scored[0]) for view, kind in others]
    return own, [gain for gain in over_first if gain.means]


@dataclass
class _Bootstrap:
    """The paired bootstrap of `Row.gain_over`, which scores each similarity on each resample only once."""

    counts: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    scores: dict[tuple[int, str, int], tuple[float, np.ndarray]] = field(default_factory=dict)

    def gain(self, view: View, kind: str, base: View) -> Gain:
        """Compare a similarity with a cosine, on the sets whose pairs both have scored."""
        row, other = view.rows[kind], base.rows["cosine"]
        shared = [
            name
            for name in set_order(list(row.golds))
            if name in other.golds and np.array_equal(row.golds[name], other.golds[name])
        ]
        groups = averaged_sets(shared) if shared else {}
        seeds = {name: i for names in groups.values() for i, name in enumerate(names)}
        sets = {name: self._interval(row, other, {name: seeds.get(name, 0)}) for name in shared}
        means = {
            called: self._interval(row, other, {name: seeds[name] for name in names})
            for called, names in groups.items()
        }
        return Gain(view, kind, f"{base.name}, cosine", sets, means)

    def _interval(self, row: Row, base: Row, seeds: dict[str, int]) -> Interval:
        """Return the mean gain over some sets, each resampled with its own seed."""
        parts = [(self._score(row, n, seed), self._score(base, n, seed)) for n, seed in seeds.items()]
        value = float(np.mean([ours[0] - theirs[0] for ours, theirs in parts]))
        resampled = np.mean([ours[1] - theirs[1] for ours, theirs in parts], axis=0)
        interval = Interval.of(value, resampled[np.isfinite(resampled)])
        return Interval(*(100 * bound for bound in interval))

    def _score(self, row: Row, name: str, seed: int) -> tuple[float, np.ndarray]:
        """Return the correlation, and what it is in the resamples; the mean of the runs."""
        key = (id(row), name, seed)
        if key not in self.scores:
            gold = row.golds[name]
            draw = (len(gold), seed)
            if draw not in self.counts:
                self.counts[draw] = resample(len(gold), seed=seed)
            runs = [
                (spearman(gold, run), resampled_spearman(gold, run, self.counts[draw]))
                for run in np.atleast_2d(row.similarities[name])
            ]
            self.scores[key] = (float(np.mean([v for v, _ in runs])), np.mean([r for _, r in runs], axis=0))
        return self.scores[key]
