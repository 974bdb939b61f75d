"""Gains with their uncertainty, of ranks and blend over an encoder's own cosine, and of model over model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rankencoder.evaluation.result_rows import averaged_sets
from rankencoder.evaluation.statistics import Interval
from rankencoder.report.document import Figure, Panel, Section
from rankencoder.report.encoder_views import View, common_name, set_order
from rankencoder.report.formatting import clean, points
from rankencoder.report.svg_plots import COLOURS, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LOOKS = {"cosine": ("base", "o"), "ranks": ("ranks", "s"), "blend": ("blend", "o")}


@dataclass(frozen=True)
class Gain:
    """How much better one similarity is than another, in points."""

    view: View
    kind: str
    over: str  # what it is compared with, in words
    sets: dict[str, Interval]
    means: dict[str, Interval]  # the means over several sets, by what to call them

    @property
    def similarity(self) -> str:
        """What to call the similarity."""
        return self.view.similarity(self.kind)


def all_gains(views: Sequence[View]) -> tuple[list[Gain], list[Gain]]:
    """Compare ranks and blend with an encoder's own cosine; cosine and blend with the first one's cosine."""
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
    return Gain(view, kind, "cosine" if base is view else f"cosine of {base.name}", sets, means)


def gains_section(gains: Sequence[Gain], over_first: Sequence[Gain]) -> Section:
    """Draw the gains with their 95% intervals, set by set, and model against model."""
    figures = {"own-gains": gains, "model-gains": over_first}
    return Section("gains", [_figure(name, some) for name, some in figures.items() if some])


def _figure(name: str, gains: Sequence[Gain]) -> Figure:
    """Draw a panel for each encoder."""
    views = list(dict.fromkeys(gain.view for gain in gains))
    return Figure(
        name,
        panels=[_panel(view, [gain for gain in gains if gain.view is view]) for view in views],
        data=[
            [gain.view.name, gain.similarity, gain.over, of, *interval, interval.verdict]
            for gain in gains
            for of, interval in _lines(gain).items()
        ],
        findings=[gain.view.tell(f"{mean}.") for gain in gains for mean in _means(gain)],
        ranks=common_name(views, "ranks"),
    )


def _means(gain: Gain) -> list[str]:
    against = f"{gain.similarity} against {gain.over}"
    return [f"{against}, on {called}: {points(mean)}" for called, mean in gain.means.items()]


def _panel(view: View, gains: Sequence[Gain]) -> Panel:
    series = {gain.kind: _lines(gain) for gain in gains}
    names = list(dict.fromkeys(name for lines in series.values() for name in lines))
    label = f"{view.name}: {'; '.join(mean for gain in gains for mean in _means(gain))}"
    draw = partial(_draw_whiskers, series=series, names=names)
    return Panel(view.title, label, draw, height=36 * len(names) + 60)


def _lines(gain: Gain) -> dict[str, Interval]:
    """Return the lines of the plot: the sets, and the means over several."""
    sets = {clean(name): interval for name, interval in gain.sets.items()}
    means = {name: interval for name, interval in gain.means.items() if clean(name) not in sets}
    short = {name: "the seven" if "seven" in name else name.split()[1] for name in means}
    return sets | {f"mean of {short[name]}": interval for name, interval in means.items()}


def _draw_whiskers(axes: Axes, series: dict[str, dict[str, Interval]], names: list[str]) -> None:
    """Draw a dot with a whisker for each similarity of each line; means stand out."""
    axes.axvline(0, color=COLOURS["ink"], linewidth=1.2, zorder=1.5)
    for i, (kind, lines) in enumerate(series.items()):
        colour, mark = _LOOKS[kind]
        shift = 0.3 * (i - (len(series) - 1) / 2)
        for name, (value, low, high) in lines.items():
            at = names.index(name) + shift
            axes.plot([low, high], [at, at], color=COLOURS[colour], linewidth=2)
            axes.plot([value], [at], mark, color=COLOURS[colour], markersize=7)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("← worse · points · better →")
    axes.set_yticks(range(len(names)), [shortened(name, 18) for name in names])
    for y, tick in enumerate(axes.get_yticklabels()):
        if tick.get_text().startswith("mean of"):
            tick.set(color=COLOURS["ink"], fontweight="bold")
            axes.axhspan(y - 0.5, y + 0.5, color=COLOURS["grid"], alpha=0.35, linewidth=0)
