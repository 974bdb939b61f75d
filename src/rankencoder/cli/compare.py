"""``rankencoder similarity``, ``neighbors`` and ``explain``: questions about sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankencoder.cli.console import Device, Json, console, print_json, quiet_libraries
from rankencoder.errors import InputError

if TYPE_CHECKING:
    from rankencoder.explain import Explanation
    from rankencoder.model import RankEncoder

Model = Annotated[Path, typer.Argument(help="A RankEncoder folder.")]
RankWeight = Annotated[float | None, typer.Option(help="Another rank weight than the stored one.")]


def similarity(
    model: Model,
    a: Annotated[str | None, typer.Argument(help="A sentence.")] = None,
    b: Annotated[str | None, typer.Argument(help="Another sentence.")] = None,
    pairs: Annotated[Path | None, typer.Option(help="Pairs: two tab-separated columns, or .jsonl.")] = None,
    rank_weight: RankWeight = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Say how similar two sentences are, or the pairs of a file.

    Examples:
    - `rankencoder similarity my-encoder "A man plays guitar." "Someone makes music."`

    - `rankencoder similarity my-encoder --pairs pairs.tsv --json`

    """
    if (a is None) != (b is None) or (pairs is None) == (a is None):
        raise InputError("give two sentences, or --pairs FILE")
    from rich.markup import escape
    from rich.table import Table

    loaded = load(model, rank_weight, device)
    if pairs is None:
        rows = _scored(loaded, [(str(a), str(b))])
    else:
        from rankencoder.io.pairs import read_pairs

        rows = _scored(loaded, ((pair.a, pair.b) for pair in read_pairs(pairs)))
    if as_json:
        print_json(list(rows))
        return
    table = Table("cosine", loaded.form.label, "similarity", "a", "b", box=None, pad_edge=False)
    for row in rows:
        numbers = (f"{row[key]:.4f}" for key in ("cosine", "rank_similarity", "similarity"))
        table.add_row(*numbers, escape(row["a"]), escape(row["b"]))
    console().print(table)


def neighbors(
    model: Model,
    sentence: Annotated[str, typer.Argument(help="A sentence.")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many.")] = 10,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """List the reference sentences nearest to a sentence.

    Example: `rankencoder neighbors my-encoder "A man plays guitar." -k 5`
    """
    from dataclasses import asdict

    from rich.markup import escape
    from rich.table import Table

    found = load(model, None, device).neighbors(sentence, k)
    if as_json:
        print_json([asdict(neighbor) for neighbor in found])
        return
    table = Table("rank", "cosine", "reference sentence", box=None, pad_edge=False)
    for neighbor in found:
        table.add_row(str(neighbor.rank), f"{neighbor.similarity:.4f}", escape(neighbor.sentence))
    console().print(table)


def explain(
    model: Model,
    a: Annotated[str, typer.Argument(help="A sentence.")],
    b: Annotated[str, typer.Argument(help="Another sentence.")],
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbours of each to look at.")] = 100,
    show: Annotated[int, typer.Option(min=0, help="Shared neighbours to print.")] = 10,
    rank_weight: RankWeight = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Say why two sentences are similar: the reference sentences that both are near to.

    Example: `rankencoder explain my-encoder "A man plays guitar." "Someone makes music."`
    """
    loaded = load(model, rank_weight, device)
    explanation = loaded.explain(a, b, k)
    print_json(explanation.to_dict()) if as_json else print_explanation(explanation, loaded.form.label, show)


def load(folder: Path, rank_weight: float | None, device: str | None) -> RankEncoder:
    """Load a RankEncoder for a command."""
    from rankencoder.persistence import read_config

    read_config(folder)  # before the heavy imports: a wrong name is told at once
    quiet_libraries()
    from rankencoder.model import RankEncoder

    model = RankEncoder.load(folder, device=device)
    if rank_weight is not None:
        model.rank_weight = rank_weight
    return model


def print_explanation(explanation: Explanation, part: str, show: int) -> None:
    """Print an explanation for a person."""
    from rich.markup import escape
    from rich.table import Table

    out = console()
    out.print(f"[bold]a[/] {escape(explanation.a)}\n[bold]b[/] {escape(explanation.b)}")
    out.print(
        f"cosine {explanation.cosine:.3f}   {part} {explanation.rank_similarity:.3f}   "
        f"[bold]blend {explanation.similarity:.3f}[/] (rank_weight {explanation.rank_weight})"
    )
    number = len(explanation.shared)
    out.print(
        f"{number} of the {explanation.k} nearest reference sentences are shared"
        + (":" if show and number else "")
    )
    if show and number:
        table = Table("rank for a", "rank for b", "shared neighbour", box=None, pad_edge=False)
        for shared in explanation.shared[:show]:
            table.add_row(str(shared.rank_a), str(shared.rank_b), escape(shared.sentence))
        out.print(table)


def _scored(model: RankEncoder, pairs: Iterable[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """Yield cosine, rank similarity and blend of each pair, a thousand pairs at a time."""
    from rankencoder.blend import blend

    rows = iter(pairs)
    while chunk := list(islice(rows, 1000)):
        vectors = model._base_vectors([text for pair in chunk for text in pair])
        ranks = model.form(vectors)
        cosines = (vectors[0::2] * vectors[1::2]).sum(dim=1).tolist()
        correlations = (ranks[0::2] * ranks[1::2]).sum(dim=1).tolist()
        for (a, b), cosine, correlation in zip(chunk, cosines, correlations, strict=True):
            yield {
                "a": a,
                "b": b,
                "cosine": cosine,
                "rank_similarity": correlation,
                "similarity": blend(correlation, cosine, model.rank_weight),
            }
