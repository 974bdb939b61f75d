"""All systems side by side: the sortable table, one plot, and the tables set by set."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rankencoder.errors import shorten
from rankencoder.evaluation.pair_metrics import FIGURES
from rankencoder.evaluation.results import Row
from rankencoder.evaluation.sts_data import DEV, SEVEN
from rankencoder.formatting import clean, listed, number
from rankencoder.report.answer import Answer, System
from rankencoder.report.document import Cell, Figure, Group, Table, spread_cell
from rankencoder.report.encoder_views import View, set_order
from rankencoder.report.rendering import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rankencoder.evaluation.statistics import Interval

_LOOKS = (("blend", "-"), ("base", "--"), ("ranks", "-."), ("other", ":"))
_RECALL = 80  # percent; the recall that the text mentions


def comparison_table(answer: Answer) -> Table:
    """Return the table of systems and sets, the best first."""
    sets = set_order(answer.sets)
    several = len(sets) > 1
    rows = []
    for system in answer.systems:
        is_best = system == answer.best
        first, *scores = [
            *([_mean(answer, system)] if several else []),
            *(spread_cell(system.row.values[name]) for name in sets),
        ]
        against = Cell("use this") if is_best else _difference(answer.difference(system))
        similarity = Cell(system.view.similarity(system.kind), best=is_best)
        rows.append((system.view.name, [similarity, first, against, *scores]))
    first_set, *others = [*(["mean"] if several else []), *map(clean, sets)]
    is_spread = any(len(system.view.members) > 1 for system in answer.systems)
    return Table(
        f"{answer.metric[:1].upper()}{answer.metric[1:]} ×100 on {answer.called}",
        ["model", "similarity", first_set, "against the best", *others],
        [Group("", rows)],
        ["± is the standard deviation over runs that differ only in their seeds."] if is_spread else [],
        words=2,
        is_sortable=True,
    )


def _mean(answer: Answer, system: System) -> Cell:
    """Return the mean over the sets; that of the seven is of rounded values, as in the field's tables."""
    if answer.sets == list(SEVEN) and "AVG" in system.row.values:
        return spread_cell(system.row.values["AVG"])
    return Cell(number(answer.score(system).value))


def _difference(gain: Interval) -> Cell:
    value, low, high = (number(part, signed=True) for part in gain)
    return Cell(value, f"({low} to {high})") if any(gain) else Cell("equal")


def figures(answer: Answer) -> list[Figure]:
    """Return a plot of precision and recall for each yes/no set; without any, one of the differences."""
    curves = [_curve_figure(number_, name, answer) for number_, name in enumerate(answer.best.row.yes_no)]
    return curves or ([_difference_figure(answer)] if len(answer.systems) > 1 else [])


def _difference_figure(answer: Answer) -> Figure:
    gains = {system.name: answer.difference(system) for system in answer.systems[1:]}
    return Figure(
        "differences",
        "Is the difference real?",
        f"Points against {answer.best.name}, with 95% intervals of paired resamples. An interval that "
        "contains 0 may be chance.",
        partial(_draw_whiskers, gains=gains),
        height=34 * len(gains) + 62,
    )


def _draw_whiskers(axes: Axes, gains: dict[str, Interval]) -> None:
    axes.axvline(0, color=COLORS["ink"], linewidth=1.2, zorder=1.5)
    for place, (value, low, high) in enumerate(gains.values()):
        color = COLORS["muted" if low <= 0 <= high else "ranks" if high < 0 else "blend"]
        axes.plot([low, high], [place, place], color=color, linewidth=2.4)
        axes.plot([value], [place], "o", color=color, markersize=7)
    axes.set_ylim(len(gains) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("← worse · points · better →")
    axes.set_yticks(range(len(gains)), [shorten(name, 28) for name in gains])


def _curve_figure(number_: int, name: str, answer: Answer) -> Figure:
    """Draw precision against recall of the best system and its rivals, of the first run of several."""
    shown = [answer.best, *answer.rivals][: len(_LOOKS)]
    curves = {s.name: s.row.yes_no[name][0]["curve"] for s in shown if name in s.row.yes_no}
    best = curves[answer.best.name]
    place = best["recall"].index(_RECALL)
    right, low, high = (number(best[key][place], 1) for key in ("precision", "low", "high"))
    caption = (
        f"To find {_RECALL}% of the yes pairs of {clean(name)} with {answer.best.name}, accept similarities "
        f"of at least {number(best['threshold'][place], 3)}: {right}% of the accepted pairs are "
        f"right (95% interval {low} to {high}). Bands are 95% intervals."
    )
    title = f"Precision and recall on {clean(name)}"
    return Figure(f"precision-recall{number_ or ''}", title, caption, partial(_draw_curves, curves=curves))


def _draw_curves(axes: Axes, curves: dict[str, dict[str, list[float]]]) -> None:
    for (name, curve), (color, line) in zip(curves.items(), _LOOKS, strict=False):
        x = curve["recall"]
        axes.fill_between(x, curve["low"], curve["high"], color=COLORS[color], alpha=0.15, linewidth=0)
        axes.plot(x, curve["precision"], line, color=COLORS[color], label=shorten(name, 44))
    axes.set(xlim=(0, 100), xlabel="recall, %", ylabel="precision, %")
    axes.legend(loc="lower left", frameon=False)


def set_tables(answer: Answer, views: Sequence[View]) -> list[Table]:
    """Tabulate what the first table lacks: other sets of scored pairs, and all figures of yes/no sets."""
    scored = [view for view in views if view.rows]
    rows = [row for view in scored for row in view.rows.values()]
    labeled = {name for row in rows for name in row.yes_no}
    names = [name for name in set_order([n for row in rows for n in row.golds]) if name not in labeled]
    caption = "Spearman’s correlation ×100, over all pairs of a set"
    dev = [name for name in names if name in DEV]
    notes = [f"{listed(dev)}: for choosing only, not for reporting."] if dev else []
    seven = [*SEVEN, "AVG"] if any("AVG" in row.values for row in rows) else [n for n in names if n in SEVEN]
    seen = {"AVG", *answer.sets} if len(rows) == len(answer.systems) else set()
    tables = []
    for columns in (seven, [name for name in names if name not in SEVEN]):
        if set(columns) - seen:
            head = ["similarity", *map(clean, columns)]
            tables.append(Table(caption, head, [_group(view, columns) for view in scored], notes))
            notes = []
    return [*tables, *(_yes_no_table(name, answer) for name in answer.best.row.yes_no)]


def _group(view: View, columns: Sequence[str]) -> Group:
    best = {c: max(_rounded(row, c) for row in view.rows.values()) for c in columns}
    rows = []
    for kind, row in view.rows.items():
        marks = [len(view.rows) > 1 and _rounded(row, c) == best[c] for c in columns]
        cells = [spread_cell(row.values.get(c, []), best=b) for c, b in zip(columns, marks, strict=True)]
        rows.append((view.system(kind), cells))
    return Group(view.label, rows)


def _rounded(row: Row, column: str) -> float:
    return round(row.mean(column), 2) if column in row.values else -float("inf")


def _yes_no_table(name: str, answer: Answer) -> Table:
    """Tabulate average precision, AUC, best F1 and its threshold of a set with yes/no labels."""
    gold = answer.best.row.golds[name]
    yes = f"{(gold == gold.max()).sum():,} of {len(gold):,} pairs are yes"
    rows = [_yes_no_row(system, system.row.yes_no[name]) for system in answer.systems]
    head = ["model", "similarity", *(title for title, _ in FIGURES.values())]
    note = "At similarity: the threshold of the best F1, on the same pairs."
    return Table(f"{clean(name)}: {yes}; ×100, with 95% intervals", head, [Group("", rows)], [note], words=2)


def _yes_no_row(system: System, runs: list[dict[str, Any]]) -> tuple[str, list[Cell]]:
    cells = [Cell(system.view.similarity(system.kind))]
    for key, (_, digits) in FIGURES.items():
        if len(runs) > 1:
            cells.append(spread_cell([run[key]["value"] for run in runs], digits))
        else:
            value, low, high = (number(runs[0][key][of], digits) for of in ("value", "low", "high"))
            cells.append(Cell(value, f"({low}–{high})"))
    return system.view.name, cells
