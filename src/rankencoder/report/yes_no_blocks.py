"""Sets with yes/no labels: a table of figures with their intervals, and the precision–recall curves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rankencoder.evaluation.binary_pairs import FIGURES
from rankencoder.report.document import Cell, Figure, Group, Panel, Table, spread_cell
from rankencoder.report.encoder_views import View, common_name
from rankencoder.report.formatting import clean, number
from rankencoder.report.svg_plots import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LOOKS = {"cosine": ("base", "-"), "ranks": ("ranks", "--"), "blend": ("blend", "-.")}


def yes_no_blocks(views: Sequence[View]) -> list[Table | Figure]:
    """Return table and curves of each set with yes/no labels."""
    names = dict.fromkeys(name for view in views for row in view.rows.values() for name in row.yes_no)
    blocks: list[Table | Figure] = []
    for name in names:
        scored = [view for view in views if name in view.rows["cosine"].yes_no]
        blocks += [_table(name, scored), _curves(name, scored)]
    return blocks


def _table(name: str, views: Sequence[View]) -> Table:
    gold = views[0].rows["cosine"].golds[name]
    yes = f"{(gold == gold.max()).sum():,} of {len(gold):,} pairs are yes"
    caption = f"{clean(name)}: yes/no labels ({yes}); ×100, with 95% intervals of resampled pairs"
    groups = []
    for view in views:
        rows = [(view.system(kind), _cells(row.yes_no[name])) for kind, row in view.rows.items()]
        groups.append(Group(view.name, rows))
    note = "At: pairs at least that similar are taken for a yes. It is the best on these very pairs."
    return Table(caption, ["similarity", *(title for title, _ in FIGURES.values())], groups, [note])


def _cells(runs: Sequence[dict[str, Any]]) -> list[Cell]:
    if len(runs) > 1:
        return [
            spread_cell([run[key]["value"] for run in runs], digits) for key, (_, digits) in FIGURES.items()
        ]
    figures = [
        [number(runs[0][key][of], n) for of in ("value", "low", "high")] for key, (_, n) in FIGURES.items()
    ]
    return [Cell(f"{value} ({low}–{high})") for value, low, high in figures]


def _curves(name: str, views: Sequence[View]) -> Figure:
    """Draw precision against recall, of the first run where there are several."""
    panels, data, findings = [], [], []
    for view in views:
        curves = {kind: row.yes_no[name][0]["curve"] for kind, row in view.rows.items()}
        cosine = curves["cosine"]
        place = cosine["recall"].index(80)
        threshold = number(cosine["threshold"][place], 3)
        right, low, high = (number(cosine[key][place], 1) for key in ("precision", "low", "high"))
        finding = view.tell(
            f"to find 80% of the yes of {clean(name)}{view.run}, accept cosines from {threshold} up: "
            f"{right}% of what is accepted is right (95% interval {low}–{high})."
        )
        panels.append(Panel(view.title, finding, partial(_draw, curves=curves)))
        columns = ("recall", "threshold", "precision", "low", "high")
        for kind, curve in curves.items():
            points = zip(*(curve[column] for column in columns), strict=True)
            data += [[view.name, view.similarity(kind), *point] for point in points]
        findings.append(finding)
    return Figure("precision-recall", panels, data, findings, common_name(views, "ranks"), clean(name))


def _draw(axes: Axes, curves: dict[str, dict[str, list[float]]]) -> None:
    for kind, curve in curves.items():
        colour, line = _LOOKS[kind]
        x = curve["recall"]
        axes.fill_between(x, curve["low"], curve["high"], color=COLOURS[colour], alpha=0.15, linewidth=0)
        axes.plot(x, curve["precision"], line, color=COLOURS[colour])
    axes.set(xlim=(0, 100), xlabel="recall, %", ylabel="precision, %")
