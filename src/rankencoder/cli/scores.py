"""What ``rankencoder evaluate`` prints."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from rankencoder.cli.console import console, make_table
from rankencoder.evaluation.evaluator import Evaluation
from rankencoder.evaluation.pair_metrics import FIGURES
from rankencoder.evaluation.results import Row, averaged_sets
from rankencoder.evaluation.statistics import Interval
from rankencoder.evaluation.sts_data import SEVEN


def print_evaluation(evaluation: Evaluation) -> None:
    """Print scores, what the differences are worth, what was chosen, and where it all is."""
    out = console()
    rows = evaluation.rows()
    if rows:
        label = f"[bold]{escape(rows[0].label)}[/]: " if len({row.label for row in rows}) == 1 else ""
        _print_sets(rows, label)
        _print_notes(evaluation)
        for line in _gain_lines(rows):
            out.print(line)
    for result in evaluation.results:
        for role, choice in result.get("choice", {}).items():
            name = " ".join(filter(None, (result["model"]["label"], role)))
            out.print(f"[bold]{escape(name)}[/] {escape(choice['sentence'])}")
    if not any(result["model"]["subjects"][0].get("form") for result in evaluation.results):
        out.print("Plain encoders have no ranks; --corpus FILE shows what rank vectors make of them.")
    for file in evaluation.files:
        out.print(f"written to {file}", soft_wrap=True)
    if evaluation.files:
        folder = evaluation.files[0].parent
        out.print(f"A page with all of it: rankencoder report {folder} -o report.html", soft_wrap=True)


def _print_sets(rows: list[Row], label: str) -> None:
    yes_no = list(dict.fromkeys(name for row in rows for name in row.yes_no))
    names = list(dict.fromkeys(name for row in rows for name in row.values if name not in yes_no))
    seven = [name for name in (*SEVEN, "AVG") if name in names]
    if names:
        console().print(f"{label}Spearman ×100")
    _print_scores(rows, seven)
    _print_scores(rows, [name for name in names if name not in seven])
    for name in yes_no:
        _print_yes_no([row for row in rows if name in row.yes_no], name, label)


def _print_scores(rows: list[Row], names: list[str]) -> None:
    """Print a row for each similarity, its best figures bold."""
    if not names:
        return
    best = {name: max(row.mean(name) for row in rows if name in row.values) for name in names}
    several = len({row.label for row in rows}) > 1
    table: list[list[Any]] = [["similarity", *names]]
    for row in rows:
        cells = [_cell(row, name, best[name] if len(rows) > 1 else None) for name in names]
        table.append([f"{row.label}, {row.system}" if several else row.system, *cells])
    _print_fitting(table)


def _print_fitting(table: list[list[Any]]) -> None:
    """Print a table or, where that is too wide, its columns as rows."""
    out = console()
    across = _scores_table(*table)
    unbounded = out.options.update_width(10 * out.width)  # otherwise nothing is wider than the terminal
    fits = out.measure(across, options=unbounded).maximum <= out.width
    out.print(across if fits else _scores_table(*zip(*table, strict=True)), crop=False)


def _print_yes_no(rows: list[Row], name: str, label: str) -> None:
    """Print the figures of a set with yes/no labels, a row for each similarity."""
    gold = rows[0].golds[name]
    about = f"yes/no labels, {(gold == gold.max()).sum():,} of {len(gold):,} yes"
    several = len({row.label for row in rows}) > 1
    table: list[list[Any]] = [["similarity", *(title for title, _ in FIGURES.values())]]
    table += [
        [
            f"{row.label}, {row.system}" if several else row.system,
            *(
                _figure([run[key] for run in row.yes_no[name]], digits)
                for key, (_, digits) in FIGURES.items()
            ),
        ]
        for row in rows
    ]
    console().print(f"{label}{escape(name)}: {about}; ×100, with 95% intervals", soft_wrap=True)
    _print_fitting(table)


def _figure(runs: Sequence[dict[str, float]], digits: int) -> str:
    """Return a value with its interval, or mean and standard deviation of several runs."""
    values = [run["value"] for run in runs]
    if len(values) > 1:
        return f"{np.mean(values):.{digits}f}±{np.std(values, ddof=1):.{digits}f}"
    low, high = (f"{runs[0][end]:.{digits}f}" for end in ("low", "high"))
    return f"{values[0]:.{digits}f} ({low}–{high})"


def _scores_table(head: Sequence[Any], *rows: Sequence[Any]) -> Table:
    first, *scores = (escape(name) for name in head)
    columns = (Column(name, justify="right") for name in scores)
    return make_table(rows, Column(first, no_wrap=True), *columns)


def _cell(row: Row, name: str, best: float | None) -> Text:
    if name not in row.values:
        return Text("–")
    std = row.std(name)
    text = f"{row.mean(name):.2f}" if std is None else f"{row.mean(name):.1f}±{std:.1f}"
    return Text(text, style="bold" if row.mean(name) == best else "")


def _gains(rows: list[Row]) -> Iterator[tuple[Row, Row, str, Interval]]:
    """Yield each system's gain over its model's cosine, and each model's over the first model."""
    first = {row.label: row for row in reversed(rows) if row.kind == "cosine"}
    for row in rows:
        own = first[row.label]
        base = rows[0] if row is own else own
        for called, names in averaged_sets(list(base.golds)).items() if row is not base else ():
            gain = row.gain_over(base, names)
            if gain is not None:
                yield row, base, called, gain


def _gain_lines(rows: list[Row]) -> Iterator[str]:
    several = len({row.label for row in rows}) > 1
    for row, base, called, gain in _gains(rows):
        of, over = (f"{r.label}, {r.system}" if several else r.system for r in (row, base))
        value, low, high = (f"{number:+.2f}".replace("-", "−") for number in gain)
        yield (
            f"{escape(of)} − {escape(over)}: [bold]{gain.verdict}[/], {value} "
            f"(95% interval {low} to {high}; {escape(called)})"
        )


def as_data(evaluation: Evaluation) -> dict[str, Any]:
    """Return what is printed, for programs."""
    gains = [
        {
            **{key: {"model": r.label, "similarity": r.system} for key, r in (("of", row), ("over", base))},
            **{"sets": called, **gain._asdict(), "verdict": gain.verdict},
        }
        for row, base, called, gain in _gains(evaluation.rows())
    ]
    choices = [
        {"model": result["model"]["label"], **result["choice"]}
        for result in evaluation.results
        if result.get("choice")
    ]
    rows = evaluation.rows()
    yes_no = [
        {"model": row.label, "similarity": row.system, "set": name, "runs": runs}
        for row in rows
        for name, runs in row.yes_no.items()
    ]
    about = {"gains": gains, "choice": choices, "yes_no": yes_no}
    return {
        "scores": evaluation.scores(),
        **about,
        "files": [str(file) for file in evaluation.files],
    }


def _print_notes(evaluation: Evaluation) -> None:
    notes = {n for result in evaluation.results for about in result["data"].values() for n in about["notes"]}
    for note in sorted(notes):
        sys.stderr.write(f"note: {note}\n")
