"""``rankencoder index`` and ``rankencoder search``."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankencoder.backends.opening import Opening
from rankencoder.cli.console import connected, console, prepare, print_json, print_table
from rankencoder.cli.options import (
    HERE,
    AnyModel,
    Json,
    Overwrite,
    Ray,
    RowFile,
    Workers,
    opens_models,
    reads_corpus,
)
from rankencoder.io.read_options import DEFAULTS, ReadOptions

if TYPE_CHECKING:
    from rankencoder.search.hits import Hit
    from rankencoder.search.rank_index import RankIndex

_TEXT = 30  # characters that a hit's text has at least


@reads_corpus
@opens_models
def index(
    model: AnyModel,
    corpus: Annotated[str, typer.Argument(help="Sentences: a file, folder or address, as for build.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The index, new or to be added to.")],
    reading: ReadOptions = DEFAULTS,
    table: Annotated[
        str | None, typer.Option(help="Keep the table elsewhere, e.g. s3://bucket/folder.")
    ] = None,
    opening: Opening = HERE,
    ray: Ray = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Make sentences searchable, with all columns of their file; or add to what is there.

    Sentences that are in the index already are not encoded again. After an interruption, run the same command
    again to resume. Several processes may add at the same time.

    Examples:
    - `rankencoder index my-encoder articles.jsonl --column title -o my-index`

    - `rankencoder search my-index "a treaty that ended a war" -k 5`

    """
    prepare(model)
    from rankencoder.search.index_folder import IndexFolder
    from rankencoder.search.rank_index import RankIndex

    settings: dict[str, Any] = {"column": reading, "progress": True}
    with connected(ray, workers) as cluster, IndexFolder(output).removed_if_empty():
        made = RankIndex.create(model, output, table=table, **opening)
        if cluster is None:
            counts = made.add(corpus, **settings)
        else:
            from rankencoder.scale.cluster_indexing import index_with_ray

            counts = index_with_ray(made, corpus, cluster, **opening, **settings)
    made.optimize()
    if as_json:
        print_json({"index": str(output), "sentences": len(made), **counts})
        return
    said = ", ".join(f"{number:,} {what}" for what, number in counts.items() if number) or "nothing to add"
    console().print(f"{output}: {len(made):,} sentences ({said})", markup=False)


@opens_models
def search(
    folder: Annotated[Path, typer.Argument(metavar="INDEX", help="An index.")],
    queries: Annotated[list[str], typer.Argument(metavar="QUERY...", help="A sentence, or several.")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many to find.")] = 10,
    where: Annotated[
        list[str] | None,
        typer.Option(help='Filter on the columns: lang=en, "year > 1990", or JSON. Repeatable.'),
    ] = None,
    documents: Annotated[
        bool | None,
        typer.Option(
            "--documents/--passages", help="Find documents by their best passage. [default: if there are any]"
        ),
    ] = None,
    output: RowFile = None,
    overwrite: Overwrite = False,
    exact: Annotated[bool, typer.Option("--exact", help="Look at every sentence of a large index.")] = False,
    model: Annotated[str | None, typer.Option(help="The model, if it is no longer where it was.")] = None,
    opening: Opening = HERE,
    as_json: Json = False,
) -> None:
    """Find the sentences of an index that are nearest to a query.

    Examples:
    - `rankencoder search my-index "a treaty that ended a war" -k 5`

    - `rankencoder search my-index "open source" --where lang=en --where 'year > 1990' -o hits.csv`

    """
    from rankencoder.io.row_files import check_row_file, write_rows
    from rankencoder.search.filters import parse_filter
    from rankencoder.search.rank_index import RankIndex

    opened = RankIndex.load(folder, model, **opening)
    condition = parse_filter(where or ())
    if output is not None:
        check_row_file(output, overwrite=overwrite)
    prepare(model)
    found = opened.search(queries, k, where=condition, exact=exact, documents=documents)
    if output is not None:
        rows = [hit.to_row(query) for query, hits in zip(queries, found, strict=True) for hit in hits]
        write_rows(output, rows, overwrite=overwrite)
        console().print(f"{output}: {len(rows):,} hits", markup=False)
        return
    if as_json:
        answers = zip(queries, found, strict=True)
        print_json([{"query": query, "hits": [hit.to_dict() for hit in hits]} for query, hits in answers])
        return
    for query, hits in zip(queries, found, strict=True):
        if len(queries) > 1:
            console().print(query, style="bold", markup=False)
        _print_hits(opened, hits)


def _print_hits(opened: RankIndex, hits: list[Hit]) -> None:
    from rich.table import Column

    from rankencoder.errors import shorten
    from rankencoder.search.index_rows import content_id

    if not hits:
        console().print("nothing found")
        return
    calibration = opened.calibration
    columns = [name for name in opened.columns if any(hit.columns.get(name) is not None for hit in hits)]
    rows = []
    # ids that say something, and are in no column
    own = any(hit.id != content_id(hit.text) and hit.id not in hit.columns.values() for hit in hits)
    for hit in hits:
        values = ("" if hit.columns[name] is None else shorten(str(hit.columns[name])) for name in columns)
        meaning = [calibration.percent(hit.score) if calibration else ""]
        if hit.probability is not None:
            meaning.insert(0, f"{hit.probability:.2f}")
        rows.append([f"{hit.score:.4f}", *meaning, *([str(hit.id)] if own else []), hit.text, *values])
    headings = ["score", *["P(same)", "random pairs below"][-len(meaning) :], *(["id"] if own else [])]
    # whole columns only: rich would cut them, or leave them out without a word
    names = [*headings, "", *columns]
    widths = [max(map(len, cells)) + 2 for cells in zip(names, *rows, strict=True)]
    first, widths[len(headings)] = len(headings) + 1, _TEXT
    fitting = max(0, sum(total <= console().width for total in accumulate(widths)) - first)
    more = (Column(name, no_wrap=True) for name in columns[:fitting])
    shown = (row[: first + fitting] for row in rows)
    print_table(shown, *headings, Column("text", min_width=_TEXT), *more)
    if hidden := ", ".join(columns[fitting:]):
        console().print(f"columns that do not fit: {hidden} (see --json or -o)", markup=False)
