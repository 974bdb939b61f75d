"""All systems side by side: one table, one picture of the differences, and the tables set by set."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from rankencoder.errors import shorten
from rankencoder.evaluation.result_rows import Row
from rankencoder.evaluation.statistics import Interval
from rankencoder.evaluation.sts_data import DEV, SEVEN
from rankencoder.formatting import clean, listed, number
from rankencoder.report.answer import Answer, System
from rankencoder.report.document import Cell, Figure, Group, Table, spread_cell
from rankencoder.report.encoder_views import View, set_order
from rankencoder.report.svg_plots import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def comparison_blocks(answer: Answer) -> list[Table | Figure]:
    """Return the table of systems and sets and, where there are several systems, their differences."""
    sets = set_order(answer.sets)
    several = ["mean"] if len(sets) > 1 else []
    head = [*several, *map(clean, sets)]
    head.insert(1, "against the best")
    rows = []
    ordered = sorted(answer.systems, key=lambda s: (-answer.score(s).value, s != answer.best))
    for system in ordered:
        is_best = system == answer.best
        difference = Cell("use this", best=True) if is_best else _difference(answer.difference(system))
        values = [Cell(number(answer.score(system).value), best=is_best)] if several else []
        values += [spread_cell(system.row.values[name], best=is_best) for name in sets]
        similarity = Cell(system.view.similarity(system.kind), best=is_best)
        values.insert(1, difference)
        rows.append((system.view.name, [similarity, *values]))
    notes = ["± is the standard deviation over runs that differ only in their seeds."]
    table = Table(
        f"{answer.metric[:1].upper()}{answer.metric[1:]} ×100 on {answer.called}",
        ["model", "similarity", *head],
        [Group("", rows)],
        notes if any(len(system.view.members) > 1 for system in ordered) else [],
        words=2,
        is_sortable=True,
    )
    others = [system for system in ordered if system != answer.best]
    return [table, _differences(answer, others)] if others else [table]


def _difference(gain: Interval) -> Cell:
    value, low, high = (number(part, signed=True) for part in gain)
    return Cell(value, f"({low} to {high})")


def _differences(answer: Answer, others: Sequence[System]) -> Figure:
    gains = {system.name: answer.difference(system) for system in others}
    real = [name for name, gain in gains.items() if gain.verdict != "within chance"]
    said = f"The difference is real for {listed(real)}." if real else "No difference is more than chance."
    return Figure(
        "differences",
        "Is the difference real?",
        f"Points against {answer.best.name}, with 95% intervals of paired resamples. A whisker that crosses "
        f"the line at 0 may be chance. {said}",
        partial(_draw_whiskers, gains=gains),
        height=34 * len(gains) + 62,
        width=760,
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
    axes.set_yticks(range(len(gains)), [shorten(name, 40) for name in gains])


def set_tables(answer: Answer, views: Sequence[View]) -> list[Table]:
    """Tabulate Spearman's correlations of all models: the seven sets, then others; yes/no sets are apart."""
    scored = [view for view in views if view.rows]
    rows = [row for view in scored for row in view.rows.values()]
    labeled = {name for row in rows for name in row.yes_no}
    names = [name for name in set_order([n for row in rows for n in row.golds]) if name not in labeled]
    caption = "Spearman’s correlation ×100, over all pairs of a set"
    notes = list(dict.fromkeys(note for view in scored if (note := _form_note(view))))
    if dev := [name for name in names if name in DEV]:
        notes.append(f"{listed(dev)}: for choosing, not for reporting.")
    seven = [*SEVEN, "AVG"] if any("AVG" in row.values for row in rows) else [n for n in names if n in SEVEN]
    tables = []
    for columns in (seven, [name for name in names if name not in SEVEN]):
        if columns and len(names) > len(answer.sets):
            head = ["similarity", *map(clean, columns)]
            tables.append(Table(caption, head, [_group(view, columns) for view in scored], notes))
            notes = []
    return tables


def _group(view: View, columns: Sequence[str]) -> Group:
    best = {c: max(_rounded(row, c) for row in view.rows.values()) for c in columns}
    several = len(view.rows) > 1
    rows = [
        (
            view.system(kind),
            [
                spread_cell(row.values.get(c, []), best=several and _rounded(row, c) == best[c])
                for c in columns
            ],
        )
        for kind, row in view.rows.items()
    ]
    return Group(view.label, rows)


def _rounded(row: Row, column: str) -> float:
    return round(row.mean(column), 2) if column in row.values else -float("inf")


def _form_note(view: View) -> str:
    """Say that ranks are not the exact ranks of the paper, where they are not."""
    form = view.subject.get("form", {"name": "exact"})
    if view.similarity("ranks") != "ranks" or form["name"] == "exact":
        return ""
    how = (
        f"compact form, {form['settings']['dim']:,} dimensions"
        if form["name"] == "compact"
        else "linear form"
    )
    return f"Ranks of {view.label} are in the {how}: close to the exact ranks of the paper, not equal."
