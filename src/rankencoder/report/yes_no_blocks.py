"""Sets with yes/no labels: the precision–recall curves, and a table of figures with their intervals."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rankencoder.errors import shorten
from rankencoder.evaluation.pair_metrics import FIGURES
from rankencoder.formatting import clean, number
from rankencoder.report.answer import Answer, System
from rankencoder.report.document import Cell, Figure, Group, Table, spread_cell
from rankencoder.report.svg_plots import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LOOKS = (("blend", "-"), ("base", "--"), ("ranks", "-."), ("other", ":"))
_RECALL = 80  # per cent, that is put into words


def curve_figures(answer: Answer) -> list[Figure]:
    """Draw precision against recall of the best system and its rivals, of the first run of several."""
    figures = []
    shown = [answer.best, *answer.rivals][: len(_LOOKS)]
    for number_, name in enumerate(answer.best.row.yes_no):
        curves = {s.name: s.row.yes_no[name][0]["curve"] for s in shown if name in s.row.yes_no}
        best = curves[answer.best.name]
        place = best["recall"].index(_RECALL)
        right, low, high = (number(best[key][place], 1) for key in ("precision", "low", "high"))
        caption = (
            f"To find {_RECALL}% of the yes pairs of {clean(name)} with {answer.best.name}, accept "
            f"similarities from {number(best['threshold'][place], 3)} up: {right}% of what is accepted is "
            f"right (95% interval {low} to {high}). Bands are 95% intervals."
        )
        ident = f"precision-recall{number_ or ''}"
        figures.append(
            Figure(ident, f"Precision and recall on {clean(name)}", caption, partial(_draw, curves=curves))
        )
    return figures


def _draw(axes: Axes, curves: dict[str, dict[str, list[float]]]) -> None:
    for (name, curve), (color, line) in zip(curves.items(), _LOOKS, strict=False):
        x = curve["recall"]
        axes.fill_between(x, curve["low"], curve["high"], color=COLORS[color], alpha=0.15, linewidth=0)
        axes.plot(x, curve["precision"], line, color=COLORS[color], label=shorten(name, 44))
    axes.set(xlim=(0, 100), xlabel="recall, %", ylabel="precision, %")
    axes.legend(loc="lower left", frameon=False)


def yes_no_tables(answer: Answer) -> list[Table]:
    """Tabulate average precision, AUC, best F1 and its threshold of each set with yes/no labels."""
    return [_table(name, answer) for name in answer.best.row.yes_no]


def _table(name: str, answer: Answer) -> Table:
    gold = answer.best.row.golds[name]
    yes = f"{(gold == gold.max()).sum():,} of {len(gold):,} pairs are yes"
    rows = [_row(system, system.row.yes_no[name]) for system in answer.systems]
    head = ["model", "similarity", *(title for title, _ in FIGURES.values())]
    note = "At similarity: the threshold of the best F1, on these very pairs."
    return Table(f"{clean(name)}: {yes}; ×100, with 95% intervals", head, [Group("", rows)], [note], words=2)


def _row(system: System, runs: list[dict[str, Any]]) -> tuple[str, list[Cell]]:
    cells = [Cell(system.view.similarity(system.kind))]
    for key, (_, digits) in FIGURES.items():
        if len(runs) > 1:
            cells.append(spread_cell([run[key]["value"] for run in runs], digits))
        else:
            value, low, high = (number(runs[0][key][of], digits) for of in ("value", "low", "high"))
            cells.append(Cell(value, f"({low}–{high})"))
    return system.view.name, cells
