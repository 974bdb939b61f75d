"""The figures of gains: dots with whiskers, set by set and model against model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from rankencoder.report.document import Block, Figure, Key, Panel, Section, Text, Value
from rankencoder.report.drawing import COLOURS, WIDTH, axes_of, shortened, to_svg
from rankencoder.report.formatting import clean, listed, plural, points
from rankencoder.report.tables_section import missing
from rankencoder.report.views import common_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rankencoder.evaluation.statistics import Interval
    from rankencoder.report.gains import Gain

_ROW = 36  # pixels of a line of whiskers
_MARKS = {"ranks": "s", "blend": "o"}


def gains_section(gains: Sequence[Gain], over_first: Sequence[Gain], aggregation: str) -> Section:
    """Draw the gains with their 95% intervals, set by set, and model against model."""
    heading = "Gains and their uncertainty"
    if not gains and not over_first:
        advice = "`rankencoder evaluate MODEL --corpus sentences.txt`, or evaluate a RankEncoder"
        return missing("gains", heading, advice)
    blocks: list[Block] = []
    if gains:
        blocks.append(_own_figure(gains))
    if over_first:
        blocks.append(_first_figure(over_first))
    if aggregation != "all":
        blocks.append(Text("The gains are over all pairs of a set, whatever the table above averages."))
    lead = (
        "A dot is a gain in points of Spearman’s correlation ×100, its whisker the 95% interval of "
        "resampled pairs, the same for both similarities, and, with several runs, of the runs’ spread. A "
        "whisker that crosses the line at 0 may be chance."
    )
    return Section("gains", heading, lead, blocks, findings=[_counted(gain) for gain in gains])


def _counted(gain: Gain) -> str:
    """Tell on how many sets a similarity is better or worse than cosine."""
    verdicts = [interval.verdict for interval in gain.sets.values()]
    parts = [
        f"{what} on {verdicts.count(what)}"
        for what in ("better", "worse", "within chance")
        if what in verdicts
    ]
    name = gain.view.does(gain.kind, "are", "is")
    return gain.view.tell(f"{name} {listed(parts)} of {plural(len(verdicts), 'set')}.")


def _own_figure(gains: Sequence[Gain]) -> Figure:
    panels: list[Panel] = []
    data: list[list[Value]] = []
    views = list({id(gain.view): gain.view for gain in gains}.values())
    for i, view in enumerate(views):
        own = [gain for gain in gains if gain.view is view]
        lines = [_lines(gain) for gain in own]
        told = [
            f"{view.similarity(gain.kind)} on {name} {points(interval)}"
            for gain, some in zip(own, lines, strict=True)
            for name, interval in some.items()
        ]
        label = f"Gains over cosine, {view.name}: {'; '.join(told)}"
        styles = [(gain.kind, _MARKS[gain.kind]) for gain in own]
        panels.append(Panel(view.title, partial(_whiskers, lines, styles, f"gain{i}", label), WIDTH))
        for gain, some in zip(own, lines, strict=True):
            name = view.similarity(gain.kind)
            data += [[view.name, name, line, *found, found.verdict] for line, found in some.items()]
    keys = [
        Key(common_name(views, "ranks"), "ranks", "square"),
        Key(common_name(views, "blend"), "blend", "dot"),
    ]
    head = ["encoder", "similarity", "set", "gain", "low", "high", "verdict"]
    means = [
        gain.view.tell(f"{gain.view.similarity(gain.kind)} on {called}: {points(interval)}.")
        for gain in gains
        for called, interval in gain.means.items()
    ]
    finding = "Gain over the encoder’s own cosine, with 95% intervals."
    return Figure(
        "own-gains", "Ranks and blend against plain cosine", finding, keys, panels, head, data, means
    )


def _lines(gain: Gain) -> dict[str, Interval]:
    """Return the lines of the plot: the sets, and the means over several."""
    means = {_short(name): found for name, found in gain.means.items() if name not in map(clean, gain.sets)}
    return {**{clean(name): found for name, found in gain.sets.items()}, **means}


def _short(called: str) -> str:
    return "mean of the seven" if "seven" in called else "mean of " + called.split()[1]


def _first_figure(gains: Sequence[Gain]) -> Figure:
    over = gains[0].over
    lines = {
        f"{gain.view.name}, {gain.view.similarity(gain.kind)}": next(iter(gain.means.values()))
        for gain in gains
    }
    told = [f"{name}: {points(interval)}." for name, interval in lines.items()]
    label = f"Gains over {over}. {' '.join(told)}"
    panel = Panel("", partial(_whiskers, [lines], [("other", "o")], "models", label, above=True), WIDTH)
    data: list[list[Value]] = [
        [gain.view.name, gain.view.similarity(gain.kind), over, called, *interval, interval.verdict]
        for gain in gains
        for called, interval in gain.means.items()
    ]
    head = ["encoder", "similarity", "against", "sets", "gain", "low", "high", "verdict"]
    finding = f"Gain over {over}, on {next(iter(gains[0].means))}, with 95% intervals."
    keys = [Key(f"gain over {over}", "other", "dot")]
    return Figure("model-gains", "Model against model", finding, keys, [panel], head, data, told)


def _whiskers(
    series: Sequence[dict[str, Interval]],
    styles: Sequence[tuple[str, str]],
    ident: str,
    label: str,
    *,
    above: bool = False,
) -> str:
    """Draw lines of dots with whiskers, from top to bottom.

    :param styles: Colour and marker of each series.
    :param above: Whether the names stand above the lines, because they are long.
    """
    names = list(dict.fromkeys(name for lines in series for name in lines))
    row = _ROW + 8 if above else _ROW
    with axes_of(row * len(names) + 60) as axes:
        for y, name in enumerate(names):
            if name.startswith("mean of") and not above:
                axes.axhspan(y - 0.5, y + 0.5, color=COLOURS["grid"], alpha=0.35, linewidth=0)
        axes.axvline(0, color=COLOURS["ink"], linewidth=1.2, zorder=1.5)
        for i, (lines, (colour, mark)) in enumerate(zip(series, styles, strict=True)):
            shift = 0.3 * (i - (len(series) - 1) / 2)
            for name, (value, low, high) in lines.items():
                at = names.index(name) + shift
                axes.plot([low, high], [at, at], color=COLOURS[colour], linewidth=2)
                axes.plot([value], [at], mark, color=COLOURS[colour], markersize=7)
        axes.set_ylim(len(names) - 0.4, -0.8 if above else -0.6)
        axes.grid(axis="y", visible=False)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("← worse · points · better →")
        _name_lines(axes, names, above)
        return to_svg(axes, ident, label)


def _name_lines(axes: Axes, names: Sequence[str], above: bool) -> None:
    axes.set_yticks(range(len(names)), [] if above else [shortened(name, 18) for name in names])
    if above:
        place = axes.get_yaxis_transform()
        for y, name in enumerate(names):
            behind = {"facecolor": COLOURS["surface"], "edgecolor": "none", "pad": 1.5}
            axes.text(0, y - 0.2, shortened(name, 56), transform=place, va="bottom", bbox=behind)
    for tick in axes.get_yticklabels():
        if tick.get_text().startswith("mean of"):
            tick.set_color(COLOURS["ink"])
            tick.set_fontweight("bold")
