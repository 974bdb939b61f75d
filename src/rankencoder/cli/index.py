"""``rankencoder index`` and ``rankencoder search``."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankencoder.backends.opening import Opening
from rankencoder.cli.console import connect, console, prepare, print_json, print_table, say
from rankencoder.cli.options import OPENING, READING, ROWS, AnyModel, Json, Ray, RowOutput, Workers
from rankencoder.io.read_options import ReadOptions

if TYPE_CHECKING:
    from rankencoder.search.index_rows import Hit
    from rankencoder.search.rank_index import RankIndex

_MIN_TEXT = 30  # characters


def index(
    model: AnyModel,
    corpus: Annotated[str, typer.Argument(help="Sentences: file, folder or URL (see build).")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Index to create or to add to.")],
    reading: ReadOptions = READING,
    table: Annotated[str | None, typer.Option(help="Store the table here, e.g. s3://bucket/folder.")] = None,
    opening: Opening = OPENING,
    ray: Ray = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Index sentences with all their columns for search, or add to an index.

    Skips sentences that are already indexed. Several processes may add to an index at the same time. If
    interrupted, run the same command again to resume.

    Examples:
    - `rankencoder index my-encoder articles.jsonl --column title -o my-index`
    - `rankencoder search my-index "a treaty that ended a war" -k 5`

    """
    prepare(model)
    from rankencoder.search.index_folder import IndexFolder
    from rankencoder.search.rank_index import RankIndex

    settings: dict[str, Any] = {"column": reading, "progress": True}
    with connect(ray, workers) as cluster, IndexFolder(output).removed_if_empty():
        made = RankIndex.create(model, output, table=table, **opening)
        if cluster is None:
            counts = made.add(corpus, **settings)
        else:
            from rankencoder.scale.cluster_indexing import index_with_ray

            counts = index_with_ray(made, corpus, cluster, **opening, **settings)
    made.optimize()
    if as_json:
        print_json({"index": str(output), "sentences": len(made), **counts})
    else:
        added = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count) or "nothing to add"
        say(f"{output}: {len(made):,} sentences ({added})")


def search(
    folder: Annotated[Path, typer.Argument(metavar="INDEX", help="Folder of the index.")],
    queries: Annotated[list[str], typer.Argument(metavar="QUERY", help="One or more sentences.")],
    k: Annotated[int, typer.Option("-k", min=1, help="Number of hits.")] = 10,
    where: Annotated[
        list[str] | None, typer.Option(help="Filter: lang=en, 'year > 1990', or JSON. Repeatable.")
    ] = None,
    documents: Annotated[
        bool | None,
        typer.Option(
            "--documents/--passages",
            help="Return documents, by best passage, or passages. [default: documents, if any]",
        ),
    ] = None,
    rows_to: RowOutput = ROWS,
    exact: Annotated[bool, typer.Option("--exact", help="Search exhaustively, even a large index.")] = False,
    model: Annotated[str | None, typer.Option(help="New location of the model, if it moved.")] = None,
    opening: Opening = OPENING,
) -> None:
    """Search an index for the sentences nearest to a query.

    Examples:
    - `rankencoder search my-index "a treaty that ended a war" -k 5`
    - `rankencoder search my-index "open source" --where lang=en --where 'year > 1990' -o hits.csv`

    """
    from rankencoder.search.filters import parse_filter
    from rankencoder.search.rank_index import RankIndex

    opened = RankIndex.load(folder, model, **opening)
    condition = parse_filter(where or ())
    prepare(model)
    answers = opened.search(queries, k, where=condition, exact=exact, documents=documents)
    found = list(zip(queries, answers, strict=True))
    rows = [hit.to_row(query) for query, hits in found for hit in hits]
    as_data = [{"query": query, "hits": [hit.to_dict() for hit in hits]} for query, hits in found]
    if rows_to.write(rows, "hit", as_data):
        return
    for query, hits in found:
        if len(queries) > 1:
            console().print(query, style="bold", markup=False)
        _print_hits(opened, hits)


def _print_hits(opened: RankIndex, hits: list[Hit]) -> None:
    from rich.table import Column

    from rankencoder.errors import shorten
    from rankencoder.search.index_rows import content_id

    if not hits:
        say("nothing found")
        return
    calibration = opened.calibration
    table = [("score", [f"{hit.score:.4f}" for hit in hits])]
    if hits[0].probability is not None:
        table.append(("P(same)", [f"{hit.probability:.2f}" for hit in hits]))
    percents = [calibration.percent(hit.score) if calibration else "" for hit in hits]
    table.append(("random pairs below", percents))
    # ids that were given, and are in no column
    if any(hit.id != content_id(hit.text) and hit.id not in hit.columns.values() for hit in hits):
        table.append(("id", [str(hit.id) for hit in hits]))
    table.append(("text", [hit.text for hit in hits]))
    own = len(table)
    for name in opened.columns:
        values = [hit.columns.get(name) for hit in hits]
        if any(value is not None for value in values):
            table.append((name, ["" if value is None else shorten(str(value)) for value in values]))
    # whole columns only: rich would cut them, or drop them silently
    widths = [max(map(len, [name, *cells])) + 2 for name, cells in table]
    widths[own - 1] = _MIN_TEXT
    fitting = max(own, sum(total <= console().width for total in accumulate(widths)))
    headings, cells = zip(*table[:fitting], strict=True)
    columns = [Column(name, no_wrap=i >= own) for i, name in enumerate(headings)]
    columns[own - 1].min_width = _MIN_TEXT
    print_table(zip(*cells, strict=True), *columns)
    if hidden := ", ".join(name for name, _ in table[fitting:]):
        say(f"columns that do not fit: {hidden} (see --json or -o)")
