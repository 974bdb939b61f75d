"""Print the results of ``rankencoder evaluate``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich.table import Column, Table
from rich.text import Text

from rankencoder.cli.console import console, make_table, say
from rankencoder.evaluation.evaluator import Evaluation
from rankencoder.evaluation.pair_metrics import FIGURES
from rankencoder.evaluation.results import Row, averaged_sets
from rankencoder.evaluation.statistics import Interval
from rankencoder.evaluation.sts_data import SEVEN


def print_evaluation(evaluation: Evaluation) -> None:
    """Print scores, gains with their intervals, the chosen similarities and the files written."""
    rows = evaluation.rows()
    if rows:
        _print_sets(rows)
        _print_notes(evaluation)
    for row, base, sets, gain in _gains(rows):
        value, low, high = (f"{number:+.2f}".replace("-", "−") for number in gain)
        interval = f", {value} (95% interval {low} to {high}; {sets})"
        _print_bold(f"{_name(row, rows)} − {_name(base, rows)}: ", gain.verdict, interval)
    for result in evaluation.results:
        for role, choice in result.get("choice", {}).items():
            name = " ".join(filter(None, (result["model"]["label"], role)))
            _print_bold("", name, f" {choice['sentence']}")
    if not any(result["model"]["subjects"][0].get("form") for result in evaluation.results):
        say("Plain encoders have no ranks; add --corpus FILE to score their rank vectors.")
    say(*(f"written to {file}" for file in evaluation.files))
    if evaluation.files:
        folder = shlex.quote(str(evaluation.files[0].parent))
        say(f"For one page with everything: rankencoder report {folder} -o report.html")


def _print_sets(rows: list[Row]) -> None:
    model = "" if _has_models(rows) else f"{rows[0].label}: "
    yes_no = list(dict.fromkeys(name for row in rows for name in row.yes_no))
    names = list(dict.fromkeys(name for row in rows for name in row.values if name not in yes_no))
    seven = [name for name in (*SEVEN, "AVG") if name in names]
    if names:
        _print_bold("", model, "Spearman ×100")
    _print_scores(rows, seven)
    _print_scores(rows, [name for name in names if name not in seven])
    for name in yes_no:
        _print_yes_no([row for row in rows if name in row.yes_no], name, model)


def _print_scores(rows: list[Row], names: list[str]) -> None:
    """Print a row for each similarity, the best score of each set bold."""
    if not names:
        return
    best = {name: max(row.mean(name) for row in rows if name in row.values) for name in names}
    table: list[list[Any]] = [["similarity", *names]]
    for row in rows:
        cells = (_cell(row, name, best[name] if len(rows) > 1 else None) for name in names)
        table.append([_name(row, rows), *cells])
    _print_fitting(table)


def _cell(row: Row, name: str, best: float | None) -> Text:
    if name not in row.values:
        return Text("–")
    std = row.std(name)
    text = f"{row.mean(name):.2f}" if std is None else f"{row.mean(name):.1f}±{std:.1f}"
    return Text(text, style="bold" if row.mean(name) == best else "")


def _print_yes_no(rows: list[Row], name: str, model: str) -> None:
    """Print the figures of a set with yes/no labels, a row for each similarity."""
    gold = rows[0].golds[name]
    labels = f"{name}: yes/no labels, {(gold == gold.max()).sum():,} of {len(gold):,} yes"
    labels += ", weighted" if name in rows[0].weights else ""
    _print_bold("", model, f"{labels}; ×100, with 95% intervals")
    table: list[list[Any]] = [["similarity", *(title for title, _ in FIGURES.values())]]
    for row in rows:
        runs = row.yes_no[name]
        figures = (_figure([run[key] for run in runs], digits) for key, (_, digits) in FIGURES.items())
        table.append([_name(row, rows), *figures])
    _print_fitting(table)


def _figure(runs: Sequence[dict[str, float]], digits: int) -> str:
    """Return a value with its interval, or mean and standard deviation of several runs."""
    values = [run["value"] for run in runs]
    if len(values) > 1:
        return f"{np.mean(values):.{digits}f}±{np.std(values, ddof=1):.{digits}f}"
    low, high = (f"{runs[0][end]:.{digits}f}" for end in ("low", "high"))
    return f"{values[0]:.{digits}f} ({low}–{high})"


def _print_fitting(table: list[list[Any]]) -> None:
    """Print a table or, where that is too wide, its columns as rows."""

    def made(head: Sequence[str], *rows: Sequence[Any]) -> Table:
        columns = (Column(Text(name), justify="right") for name in head[1:])
        return make_table(rows, Column(Text(head[0]), no_wrap=True), *columns)

    out, across = console(), made(*table)
    unbounded = out.options.update_width(10 * out.width)  # otherwise nothing is wider than the terminal
    fits = out.measure(across, options=unbounded).maximum <= out.width
    out.print(across if fits else made(*zip(*table, strict=True)), crop=False)


def _print_bold(before: str, bold: str, after: str) -> None:
    console().print(Text.assemble(before, (bold, "bold"), after), soft_wrap=True)


def _has_models(rows: list[Row]) -> bool:
    return len({row.label for row in rows}) > 1


def _name(row: Row, rows: list[Row]) -> str:
    return f"{row.label}, {row.system}" if _has_models(rows) else row.system


def _gains(rows: list[Row]) -> Iterator[tuple[Row, Row, str, Interval]]:
    """Yield each system's gain over its model's cosine, and each model's over the first model."""
    first = {row.label: row for row in reversed(rows) if row.kind == "cosine"}
    for row in rows:
        own = first[row.label]
        base = rows[0] if row is own else own
        for sets, names in averaged_sets(list(base.golds)).items() if row is not base else ():
            gain = row.gain_over(base, names)
            if gain is not None:
                yield row, base, sets, gain


def as_data(evaluation: Evaluation) -> dict[str, Any]:
    """Return the printed results as plain data."""
    rows = evaluation.rows()
    return {
        "scores": evaluation.scores(),
        "gains": [
            {
                **{
                    key: {"model": r.label, "similarity": r.system}
                    for key, r in (("of", row), ("over", base))
                },
                **{"sets": sets, **gain._asdict(), "verdict": gain.verdict},
            }
            for row, base, sets, gain in _gains(rows)
        ],
        "choice": [
            {"model": result["model"]["label"], **result["choice"]}
            for result in evaluation.results
            if result.get("choice")
        ],
        "yes_no": [
            {"model": row.label, "similarity": row.system, "set": name, "runs": runs}
            for row in rows
            for name, runs in row.yes_no.items()
        ],
        "files": [str(file) for file in evaluation.files],
    }


def _print_notes(evaluation: Evaluation) -> None:
    notes = {n for result in evaluation.results for about in result["data"].values() for n in about["notes"]}
    for note in sorted(notes):
        sys.stderr.write(f"note: {note}\n")
