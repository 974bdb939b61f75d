"""``rankencoder evaluate`` and ``rankencoder report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rankencoder.backends.opening import Opening
from rankencoder.cli.console import prepare, print_json, print_table, say
from rankencoder.cli.options import OPENING, Corpus, Dev, Json, Output, Overwrite, Size
from rankencoder.errors import InputError


def evaluate(
    models: Annotated[list[str], typer.Argument(help="RankEncoders, training runs or any encoders.")],
    data: Annotated[str | None, typer.Option(help="Folder of STS sets. [default: fetched data]")] = None,
    dev: Dev = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task", "-t", help="sts, choice, cost, or one set, e.g. STS12. Repeatable. [default: all]"
        ),
    ] = None,
    corpus: Corpus = None,
    size: Size = 10_000,
    output: Output = Path("evaluation"),
    mteb: Annotated[list[str] | None, typer.Option(help="Run this task of mteb instead. Repeatable.")] = None,
    cache: Annotated[bool, typer.Option(help="Reuse cached vectors.")] = True,
    opening: Opening = OPENING,
    as_json: Json = False,
) -> None:
    """Evaluate encoders on STS sets and your pairs, by cosine, ranks and their blend.

    Compares any number of models. Training runs that differ only in their seeds become one row, mean ± std.
    Caches vectors: no sentence is encoded twice, even after an interruption.

    Examples:
    - `rankencoder evaluate my-encoder`
    - `rankencoder evaluate my-run-1 my-run-2 my-run-3 --data SentEval/data`
    - `rankencoder evaluate sentence-transformers/all-MiniLM-L6-v2 --corpus corpus.txt --dev my-pairs.tsv`
    - `rankencoder evaluate my-encoder --mteb Banking77Classification`

    """
    if mteb:
        if task or dev or corpus or data:
            raise InputError("mteb has its own tasks and data: omit --task, --dev, --data and --corpus")
        if opening.get("backend") != "torch" or opening.get("precision"):
            raise InputError("mteb runs torch in float32: omit --backend and --precision")
        _run_mteb(models, mteb, output, {key: opening[key] for key in ("device", "batch_size")}, as_json)
        return
    prepare()
    from rankencoder.cli.scores import as_data, print_evaluation
    from rankencoder.evaluation.evaluator import SECTIONS
    from rankencoder.evaluation.evaluator import evaluate as run
    from rankencoder.evaluation.sts_data import MissingDataError

    try:
        evaluation = run(
            list(models),
            data=data,
            dev=dev or [],
            tasks=task or SECTIONS,
            corpus=corpus,
            size=size,
            output=output,
            cache=cache,
            **opening,
            progress=True,
        )
    except MissingDataError as error:
        raise InputError(f"{error}; `rankencoder data fetch` downloads the public sets") from error
    if as_json:
        print_json(as_data(evaluation))
    else:
        print_evaluation(evaluation)


def _run_mteb(
    models: list[str], tasks: list[str], output: Path, options: dict[str, Any], as_json: bool
) -> None:
    prepare()
    from rankencoder.integrations.mteb import run_mteb

    found = [{"model": model, **row} for model in models for row in run_mteb(model, tasks, output, **options)]
    if as_json:
        print_json(found)
        return
    columns = ("model", "task", "split", "subset")
    rows = ((*(row[key] for key in columns), f"{100 * row['score']:.2f}") for row in found)
    print_table(rows, *columns, "score")


def report(
    results: Annotated[list[Path], typer.Argument(help="Results of evaluate: JSON files or folders.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write: .html or .md.")] = Path(
        "report.html"
    ),
    papers: Annotated[bool, typer.Option("--papers", help="Add published results of BERT-base.")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Report which encoder and similarity is best, and whether the difference is real.

    Writes one self-contained page to share, print, or read in light or dark mode.

    Examples:
    - `rankencoder report evaluation -o report.html`
    - `rankencoder report evaluation/my-run-1.json evaluation/my-run-2.json`
    - `rankencoder report evaluation -o report.md`

    """
    from rankencoder.report import report as make
    from rankencoder.report.rendering import is_report

    if output.suffix.lower() not in (".html", ".htm", ".md", ".markdown"):
        raise InputError(f"{output} must end in .html or .md")
    if output.exists() and not overwrite and not is_report(output):
        raise InputError(
            f"{output} already exists and is not a report: choose another name or set `overwrite`"
        )
    format = "md" if output.suffix.lower() in (".md", ".markdown") else "html"
    make(list(results), output, format=format, papers=papers)
    say(str(output))
