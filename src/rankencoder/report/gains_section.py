"""Gains with their uncertainty, of ranks and blend over an encoder's own cosine, and of model over model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rankencoder.evaluation.result_rows import averaged_sets
from rankencoder.evaluation.statistics import Interval
from rankencoder.report.document import Figure, Panel, Section, Value
from rankencoder.report.encoder_views import View, common_name, set_order
from rankencoder.report.formatting import clean, listed, plural, points
from rankencoder.report.svg_plots import COLOURS, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKS = {"ranks": "s", "blend": "o", "other": "o"}


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
    return Gain(view, kind, f"{base.name}, cosine", sets, means)


def gains_section(gains: Sequence[Gain], over_first: Sequence[Gain]) -> Section:
    """Draw the gains with their 95% intervals, set by set, and model against model."""
    blocks = [draw(some) for draw, some in ((_own_figure, gains), (_first_figure, over_first)) if some]
    return Section("gains", blocks, [_count_verdicts(gain) for gain in gains])


def _count_verdicts(gain: Gain) -> str:
    """Say on how many sets a similarity is better or worse than cosine."""
    verdicts = [interval.verdict for interval in gain.sets.values()]
    kinds = [kind for kind in ("better", "worse", "within chance") if kind in verdicts]
    counts = listed(f"{kind} on {verdicts.count(kind)}" for kind in kinds)
    name = gain.view.does(gain.kind, "are", "is")
    return gain.view.tell(f"{name} {counts} of {plural(len(verdicts), 'set')}.")


def _own_figure(gains: Sequence[Gain]) -> Figure:
    views = list({id(gain.view): gain.view for gain in gains}.values())
    data: list[list[Value]] = [
        [gain.view.name, gain.similarity, name, *interval, interval.verdict]
        for gain in gains
        for name, interval in _lines(gain).items()
    ]
    means = [
        gain.view.tell(f"{gain.similarity} on {called}: {points(interval)}.")
        for gain in gains
        for called, interval in gain.means.items()
    ]
    return Figure(
        ident="own-gains",
        title="Ranks and blend against plain cosine",
        keys=[
            (common_name(views, "ranks"), "ranks", "square"),
            (common_name(views, "blend"), "blend", "dot"),
        ],
        panels=[_own_panel(view, [gain for gain in gains if gain.view is view]) for view in views],
        head=["encoder", "similarity", "set", "gain", "low", "high", "verdict"],
        data=data,
        finding="Gain over the encoder’s own cosine, over all pairs of a set, with 95% intervals.",
        findings=means,
    )


def _own_panel(view: View, gains: Sequence[Gain]) -> Panel:
    series = {gain.kind: _lines(gain) for gain in gains}
    means = [f"{g.similarity} on {name}: {points(i)}" for g in gains for name, i in g.means.items()]
    label = f"Gains over cosine, {view.name}: {'; '.join(means)}"
    rows = len({name for lines in series.values() for name in lines})
    return Panel(view.title, label, partial(_draw_whiskers, series=series), height=36 * rows + 60)


def _lines(gain: Gain) -> dict[str, Interval]:
    """Return the lines of the plot: the sets, and the means over several."""
    sets = {clean(name): interval for name, interval in gain.sets.items()}
    means = {name: interval for name, interval in gain.means.items() if clean(name) not in sets}
    short = {name: "the seven" if "seven" in name else name.split()[1] for name in means}
    return sets | {f"mean of {short[name]}": interval for name, interval in means.items()}


def _first_figure(gains: Sequence[Gain]) -> Figure:
    over = gains[0].over
    lines = {f"{gain.view.name}, {gain.similarity}": next(iter(gain.means.values())) for gain in gains}
    findings = [f"{name}: {points(interval)}." for name, interval in lines.items()]
    draw = partial(_draw_whiskers, series={"other": lines}, above=True)
    data: list[list[Value]] = [
        [gain.view.name, gain.similarity, over, called, *interval, interval.verdict]
        for gain in gains
        for called, interval in gain.means.items()
    ]
    return Figure(
        ident="model-gains",
        title="Model against model",
        keys=[(f"gain over {over}", "other", "dot")],
        panels=[Panel("", f"Gains over {over}. {' '.join(findings)}", draw, height=44 * len(lines) + 60)],
        head=["encoder", "similarity", "against", "sets", "gain", "low", "high", "verdict"],
        data=data,
        finding=f"Gain over {over}, on {next(iter(gains[0].means))}, with 95% intervals.",
        findings=findings,
    )


def _draw_whiskers(axes: Axes, series: dict[str, dict[str, Interval]], above: bool = False) -> None:
    """Draw lines of dots with whiskers by colour, from top to bottom; long names stand above them."""
    names = list(dict.fromkeys(name for lines in series.values() for name in lines))
    for y, name in enumerate(names):
        if name.startswith("mean of") and not above:
            axes.axhspan(y - 0.5, y + 0.5, color=COLOURS["grid"], alpha=0.35, linewidth=0)
    axes.axvline(0, color=COLOURS["ink"], linewidth=1.2, zorder=1.5)
    for i, (colour, lines) in enumerate(series.items()):
        shift = 0.3 * (i - (len(series) - 1) / 2)
        for name, (value, low, high) in lines.items():
            at = names.index(name) + shift
            axes.plot([low, high], [at, at], color=COLOURS[colour], linewidth=2)
            axes.plot([value], [at], _MARKS[colour], color=COLOURS[colour], markersize=7)
    axes.set_ylim(len(names) - 0.4, -0.8 if above else -0.6)
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("← worse · points · better →")
    axes.set_yticks(range(len(names)), [] if above else [shortened(name, 18) for name in names])
    if above:
        behind = {"facecolor": COLOURS["surface"], "edgecolor": "none", "pad": 1.5}
        place = axes.get_yaxis_transform()
        for y, name in enumerate(names):
            axes.text(0, y - 0.2, shortened(name, 56), transform=place, va="bottom", bbox=behind)
    for tick in axes.get_yticklabels():
        if tick.get_text().startswith("mean of"):
            tick.set(color=COLOURS["ink"], fontweight="bold")
