"""``rankencoder evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rankencoder.backends.opening import Opening
from rankencoder.cli.console import prepare, print_json, print_table
from rankencoder.cli.options import (
    HERE,
    Aggregation,
    Corpus,
    Dev,
    Json,
    Output,
    Size,
    opens_models,
)
from rankencoder.errors import InputError


@opens_models
def evaluate(
    models: Annotated[
        list[str], typer.Argument(help="RankEncoders, folders of training runs, or any encoders.")
    ],
    data: Annotated[
        str | None,
        typer.Option(help="Folder of STS and transfer data; by default what was fetched."),
    ] = None,
    dev: Dev = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task", "-t", help="all, sts, transfer, space, …, or a set such as STS12; repeatable."
        ),
    ] = None,
    corpus: Corpus = None,
    size: Size = 10_000,
    output: Output = Path("evaluation"),
    aggregation: Aggregation = "all",
    projection: Annotated[str, typer.Option(help="Of the map: pca or tsne.")] = "pca",
    mteb: Annotated[
        list[str] | None, typer.Option(help="Run this mteb task, through mteb, instead; repeatable.")
    ] = None,
    cache: Annotated[bool, typer.Option(help="Keep vectors for the next time.")] = True,
    opening: Opening = HERE,
    as_json: Json = False,
) -> None:
    """Measure encoders on STS and transfer tasks, and what rank vectors make of them.

    Several models are compared; trainings that differ only in seeds become one row with mean ± std.
    Repeated evaluation reuses stored vectors, also after an interruption.

    Examples:
    - `rankencoder evaluate my-encoder`

    - `rankencoder evaluate my-run-1 my-run-2 my-run-3 --data SentEval/data`

    - `rankencoder evaluate sentence-transformers/all-MiniLM-L6-v2 --corpus corpus.txt --dev my-pairs.tsv`

    - `rankencoder evaluate my-encoder --task transfer`

    """
    if mteb:
        if task or dev or corpus or data:
            raise InputError("mteb has its own tasks and data: leave --task, --dev, --data and --corpus out")
        if opening.get("backend") != "torch" or opening.get("precision"):
            raise InputError("mteb runs torch in float32: leave --backend and --precision out")
        _run_mteb(models, mteb, output, {key: opening[key] for key in ("device", "batch_size")}, as_json)
        return
    prepare()
    from rankencoder.cli.scores import as_data, print_evaluation
    from rankencoder.evaluation.evaluator import SECTIONS, check_aggregation
    from rankencoder.evaluation.evaluator import evaluate as run
    from rankencoder.evaluation.sts_data import MissingDataError

    how = check_aggregation(aggregation)
    try:
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
            **opening,
            progress=True,
        )
    except MissingDataError as error:
        raise InputError(f"{error}; `rankencoder data fetch` gets the public sets") from error
    if as_json:
        print_json(as_data(evaluation, how))
    else:
        print_evaluation(evaluation, how)


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
