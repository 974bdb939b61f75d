"""``rankencoder duplicates``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankencoder.cli.console import console, is_watched, prepare, print_json, print_table
from rankencoder.cli.options import BatchSize, Column, Device, Json
from rankencoder.errors import InputError

if TYPE_CHECKING:
    from rankencoder.search.near_duplicates import Duplicates


def duplicates(
    corpus: Annotated[Path, typer.Argument(help="Sentences: a file or folder, as for build; or an index.")],
    model: Annotated[
        str | None, typer.Option(help="A RankEncoder folder, or an encoder. An index has its own.")
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            help="A similarity (0.9), or the share of random pairs to be higher than (99.99%). [default: "
            "99.9999%, or the highest that can be told]"
        ),
    ] = None,
    groups: Annotated[bool, typer.Option("--groups", help="Print groups instead of pairs.")] = False,
    show: Annotated[int, typer.Option(min=0, help="Pairs or groups to print.")] = 50,
    column: Column = None,
    device: Device = None,
    batch_size: BatchSize = 32,
    as_json: Json = False,
) -> None:
    """List the sentences of a corpus that say nearly the same, with similarities that mean something.

    Each sentence is compared with each, and every similarity with those of random pairs: of the model's
    reference corpus, or else of this corpus.

    Examples:
    - `rankencoder duplicates questions.csv --model my-encoder`

    - `rankencoder duplicates my-index --threshold 0.95 --groups`

    """
    if not corpus.exists():
        raise InputError(f"no such file or folder: {corpus}")
    prepare(model)
    from rankencoder.search.near_duplicates import find_duplicates

    found = find_duplicates(
        corpus,
        model,
        threshold=threshold,
        column=column,
        device=device,
        batch_size=batch_size,
        progress=is_watched(),
    )
    if as_json:
        print_json(found.to_dict())
        return
    _print_groups(found, show) if groups else _print_pairs(found, show)
    _print_summary(found)


def _print_pairs(found: Duplicates, show: int) -> None:
    from rich.table import Column

    rows = []
    for pair in found.pairs[:show]:
        numbers = (f"{pair.similarity:.4f}", found.calibration.percent(pair.similarity))
        rows.append((*numbers, found.places[pair.a][0], found.sentences[pair.a]))
        rows.append(("", "", found.places[pair.b][0], found.sentences[pair.b]))
    where = Column("where", overflow="fold")  # ids are to be used, and must not be cut
    if rows:
        print_table(rows, "similarity", "random pairs below", where, "sentence")


def _print_groups(found: Duplicates, show: int) -> None:
    for group in found.groups()[:show]:
        number = sum(len(found.places[i]) for i in group)
        console().print(f"{number} sentences, {len(group)} different", markup=False)
        for i in group:
            times = f" (and {len(found.places[i]) - 1} times more)" if len(found.places[i]) > 1 else ""
            console().print(f"  {found.places[i][0]}{times}: {found.sentences[i]}", markup=False)


def _print_summary(found: Duplicates) -> None:
    meaning = found.calibration.describe(found.threshold)
    parts = [
        f"{len(found.pairs):,} pairs among {len(found.sentences):,} different sentences, from similarity "
        f"{found.threshold:.4f} on ({meaning} of {found.calibration.source})"
    ]
    if found.repeated:
        parts.append(f"{len(found.repeated):,} sentences are repeated word for word")
    if found.skipped:
        parts.append(f"{found.skipped:,} empty or over-long lines were left out")
    console().print("; ".join(parts), markup=False)
