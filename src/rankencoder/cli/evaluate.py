"""``rankencoder evaluate``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankencoder.cli.console import (
    BatchSize,
    Device,
    Json,
    console,
    is_watched,
    print_json,
    quiet_libraries,
)
from rankencoder.errors import InputError

if TYPE_CHECKING:
    from rankencoder.evaluation.results import Row
    from rankencoder.evaluation.run import Evaluation

_DEFAULT = "evaluation"


def evaluate(
    models: Annotated[
        list[str], typer.Argument(help="RankEncoder or training folders, or encoders: folder or hub name.")
    ],
    data: Annotated[
        str | None,
        typer.Option(help="Folder of STS and transfer data, or 'hub'; by default what was fetched."),
    ] = None,
    dev: Annotated[
        list[Path] | None, typer.Option(help="Your own scored pairs: .tsv, .csv or .jsonl; repeatable.")
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task", "-t", help="all, sts, transfer, space, …, or a set such as STS12; repeatable."
        ),
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option(help="Draw a reference corpus from here, for plain encoders.")
    ] = None,
    size: Annotated[int, typer.Option(min=2, help="Sentences of that reference corpus.")] = 10_000,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")] = Path(_DEFAULT),
    aggregation: Annotated[str, typer.Option(help="Of sub-sets: all (the field's), mean or wmean.")] = "all",
    projection: Annotated[str, typer.Option(help="Of the map: pca, tsne or umap.")] = "pca",
    mteb: Annotated[
        list[str] | None, typer.Option(help="Run this mteb task, through mteb, instead; repeatable.")
    ] = None,
    cache: Annotated[bool, typer.Option(help="Keep vectors for the next time.")] = True,
    device: Device = None,
    batch_size: BatchSize = 32,
    as_json: Json = False,
) -> None:
    """Measure encoders on STS and transfer tasks, and what rank vectors make of them.

    Several models are compared; trainings that differ only in seeds become one row with mean ± std.
    Repeated evaluation reuses stored vectors, and interrupted work goes on where it stopped.

    Examples:
    - `rankencoder evaluate my-encoder`

    - `rankencoder evaluate my-run-1 my-run-2 my-run-3 --data SentEval/data`

    - `rankencoder evaluate sentence-transformers/all-MiniLM-L6-v2 --corpus corpus.txt --dev my-pairs.tsv`

    - `rankencoder evaluate my-encoder --task transfer`

    """
    if mteb:
        _run_mteb(models, mteb, output, device, as_json)
        return
    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file: the results need a folder")
    quiet_libraries()
    from rankencoder.evaluation.run import SECTIONS, check_aggregation
    from rankencoder.evaluation.run import evaluate as run

    how = check_aggregation(aggregation)
    evaluation = run(
        list(models),
        data=data,
        dev=dev or [],
        tasks=task or SECTIONS,
        corpus=corpus,
        size=size,
        output=output,
        projection=projection,
        cache=cache,
        device=device,
        batch_size=batch_size,
        progress=is_watched(),
    )
    if as_json:
        print_json({"scores": evaluation.scores(how), "files": [str(file) for file in evaluation.files]})
    else:
        _print(evaluation, how)


def _run_mteb(models: list[str], tasks: list[str], output: Path, device: str | None, as_json: bool) -> None:
    quiet_libraries()
    from rankencoder.evaluation.mteb_tasks import run_mteb

    found = [
        {"model": model, **row} for model in models for row in run_mteb(model, tasks, output, device=device)
    ]
    if as_json:
        print_json(found)
        return
    from rich.table import Table

    table = Table("model", "task", "split", "score", box=None, pad_edge=False)
    for row in found:
        table.add_row(row["model"], row["task"], row["split"], f"{100 * row['score']:.2f}")
    console().print(table)


def _print(evaluation: Evaluation, how: str) -> None:
    from rich.markup import escape

    out = console()
    rows = evaluation.rows(how)
    if rows:
        label = f"[bold]{escape(rows[0].label)}[/]: " if len({row.label for row in rows}) == 1 else ""
        out.print(f"{label}Spearman ×100 ({how})")
        _print_scores(rows)
        _print_notes(evaluation)
        for line in _gain_lines(rows):
            out.print(line)
    _print_transfer(evaluation)
    for result in evaluation.results:
        for role, choice in (result.get("choice") or {}).items():
            name = " ".join(filter(None, (result["model"]["label"], role)))
            out.print(f"[bold]{escape(name)}[/] {escape(choice['sentence'])}")
    if not any(result["model"]["subjects"][0].get("form") for result in evaluation.results):
        out.print("Plain encoders have no ranks; --corpus FILE shows what rank vectors make of them.")
    for file in evaluation.files:
        out.print(f"written to {file}", soft_wrap=True)
    if evaluation.files:
        folder = evaluation.files[0].parent
        out.print(f"A page with all of it: rankencoder report {folder} -o report.html", soft_wrap=True)


def _print_scores(rows: list[Row]) -> None:
    """Print the field's seven sets with their average, and below them all others."""
    from rankencoder.evaluation.sts_data import SEVEN

    names = list(dict.fromkeys(name for row in rows for name in row.values))
    seven = [name for name in (*SEVEN, "AVG") if name in names]
    for some in (seven, [name for name in names if name not in seven]):
        if some:
            console().print(_score_table(rows, some))


def _score_table(rows: list[Row], names: list[str]) -> Any:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("similarity", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    best = {name: max(row.mean(name) for row in rows if name in row.values) for name in names}
    label = None
    for row in rows:
        if row.label != label and len({row.label for row in rows}) > 1:
            table.add_row(f"[bold]{escape(row.label)}[/]")
        label = row.label
        cells = []
        for name in names:
            text = _cell(row, name)
            cells.append(
                f"[bold]{text}[/]" if row.values.get(name) and row.mean(name) == best[name] else text
            )
        table.add_row(row.system, *cells)
    return table


def _cell(row: Row, name: str) -> str:
    if name not in row.values:
        return "–"
    std = row.std(name)
    return f"{row.mean(name):.2f}" if std is None else f"{row.mean(name):.1f}±{std:.1f}"


def _gain_lines(rows: list[Row]) -> list[str]:
    """Return each system's gain over its model's cosine, and each model's over the first model."""
    from rich.markup import escape

    from rankencoder.evaluation.results import main_sets

    lines = []
    first = {row.label: row for row in reversed(rows) if row.kind == "cosine"}
    for row in rows:
        own = first[row.label]
        base = rows[0] if row is own else own
        names = main_sets(base)
        gain = row.gain_over(base, names) if row is not base else None
        if gain is not None:
            what = "seven sets" if "AVG" in base.values else ", ".join(names)
            other = row.label != base.label
            of, over = (f"{r.label}, {r.system}" if other else r.system for r in (row, base))
            lines.append(
                f"{escape(of)} − {escape(over)}: [bold]{gain.verdict}[/], {gain.value:+.2f} "
                f"(95% interval {gain.low:+.2f} to {gain.high:+.2f}; {what})"
            )
    return lines


def _print_notes(evaluation: Evaluation) -> None:
    notes = {n for result in evaluation.results for about in result["data"].values() for n in about["notes"]}
    for note in sorted(notes):
        sys.stderr.write(f"note: {note}\n")


def _print_transfer(evaluation: Evaluation) -> None:
    from rich.markup import escape
    from rich.table import Table

    rows = [
        (result["model"]["label"], name, system)
        for result in evaluation.results
        for name, system in result.get("transfer", {}).get("systems", {}).items()
    ]
    if not rows:
        return
    names = list(dict.fromkeys(task for *_, system in rows for task in system["tasks"]))
    table = Table("model", "vectors", *names, "AVG", box=None, pad_edge=False)
    for label, name, system in rows:
        cells = [f"{system['tasks'][task]['accuracy']:.2f}" for task in names]
        average = "–" if system["AVG"] is None else f"{system['AVG']:.2f}"
        table.add_row(escape(label), name, *cells, average)
    console().print("[bold]Transfer, accuracy in %[/]")
    console().print(table)
