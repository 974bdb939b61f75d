"""``rankencoder similarity``, ``neighbors`` and ``explain``: similarities and neighbors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankencoder.backends.opening import Opening
from rankencoder.cli.console import console, make_table, prepare, print_json, print_table
from rankencoder.cli.options import OPENING, ROWS, AnyModel, Json, RowOutput
from rankencoder.errors import InputError

if TYPE_CHECKING:
    from rankencoder.encoders import Encoder
    from rankencoder.explain import Explanation
    from rankencoder.io.pairs import Pair
    from rankencoder.labels.threshold_curve import ThresholdCurve
    from rankencoder.model import RankEncoder

Model = Annotated[str, typer.Argument(help="A RankEncoder or a training run.")]
RankWeight = Annotated[float | None, typer.Option(help="Override the stored rank weight.")]


def similarity(
    model: AnyModel,
    a: Annotated[str | None, typer.Argument(help="A sentence.")] = None,
    b: Annotated[str | None, typer.Argument(help="Another sentence.")] = None,
    pairs: Annotated[Path | None, typer.Option(help="File of pairs: .tsv, .csv, .jsonl.")] = None,
    rank_weight: RankWeight = None,
    rows_to: RowOutput = ROWS,
    opening: Opening = OPENING,
) -> None:
    """Score the similarity of two sentences or of a file of pairs.

    Examples:
    - `rankencoder similarity my-encoder "A man plays guitar." "Someone makes music."`
    - `rankencoder similarity my-encoder --pairs pairs.tsv -o scores.csv`

    """
    if (a is None) != (b is None) or (pairs is None) == (a is None):
        raise InputError("pass two sentences, or --pairs FILE")
    from rankencoder.io.corpus import check_sentences
    from rankencoder.io.pairs import Pair, read_pairs

    prepare(model)
    from rankencoder.model import RankEncoder, open_model

    loaded = open_model(model, **opening)
    columns = {"similarity": "similarity"}
    if isinstance(loaded, RankEncoder):
        columns = {"cosine": "cosine", "rank_similarity": loaded.form.label, **columns}
        loaded.rank_weight = loaded.rank_weight if rank_weight is None else rank_weight
    elif rank_weight is not None:
        raise InputError(f"{model} is a plain encoder: only a RankEncoder has a rank weight")
    from rankencoder.labels.fitted_curve import find_curve

    if curve := find_curve(loaded):
        columns["probability"] = "P(same)"
    given = [Pair(*check_sentences([str(a), str(b)]))] if pairs is None else read_pairs(pairs)
    rows = list(_score(loaded, given, curve))
    if not rows_to.write(rows, "pair"):
        cells = ((*(f"{row[key]:.4f}" for key in columns), row["a"], row["b"]) for row in rows)
        print_table(cells, *columns.values(), "a", "b")


def neighbors(
    model: Model,
    sentence: Annotated[str, typer.Argument(help="A sentence.")],
    k: Annotated[int, typer.Option("-k", min=1, help="Number of neighbors.")] = 10,
    rows_to: RowOutput = ROWS,
    opening: Opening = OPENING,
) -> None:
    """List the reference sentences nearest to a sentence.

    Example: `rankencoder neighbors my-encoder "A man plays guitar." -k 5`
    """
    from dataclasses import asdict

    found = [asdict(neighbor) for neighbor in load(model, None, opening).neighbors(sentence, k)]
    if not rows_to.write(found, "reference sentence"):
        cells = ((row["rank"], f"{row['similarity']:.4f}", row["sentence"]) for row in found)
        print_table(cells, "rank", "cosine", "reference sentence")


def explain(
    model: Model,
    a: Annotated[str, typer.Argument(help="A sentence.")],
    b: Annotated[str, typer.Argument(help="Another sentence.")],
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbors of each sentence to compare.")] = 100,
    show: Annotated[int, typer.Option(min=0, help="Shared neighbors to print.")] = 10,
    rank_weight: RankWeight = None,
    opening: Opening = OPENING,
    as_json: Json = False,
) -> None:
    """Explain a similarity by the reference sentences near both sentences.

    Example: `rankencoder explain my-encoder "A man plays guitar." "Someone makes music."`
    """
    loaded = load(model, rank_weight, opening)
    from rankencoder.labels.fitted_curve import find_curve

    explanation, curve = loaded.explain(a, b, k), find_curve(loaded)
    probability = None if curve is None else float(curve.p_same(explanation.similarity))
    if as_json:
        print_json({**explanation.to_dict(), "probability": probability})
    else:
        print_explanation(explanation, loaded.form.label, show, probability)


def load(name: str, rank_weight: float | None, opening: Opening) -> RankEncoder:
    """Open a RankEncoder for a command."""
    prepare(name)
    from rankencoder.model import open_rankencoder

    model = open_rankencoder(name, **opening)
    if rank_weight is not None:
        model.rank_weight = rank_weight
    return model


def print_explanation(
    explanation: Explanation, part: str, show: int, probability: float | None = None
) -> None:
    """Print an explanation as text."""
    from rich.markup import escape

    out = console()
    out.print(f"[bold]a[/] {escape(explanation.a)}\n[bold]b[/] {escape(explanation.b)}")
    out.print(
        f"cosine {explanation.cosine:.3f}   {part} {explanation.rank_similarity:.3f}   "
        f"[bold]blend {explanation.similarity:.3f}[/] (rank_weight {explanation.rank_weight})"
        + ("" if probability is None else f"   P(same) {probability:.2f}")
    )
    number, listed = len(explanation.shared), explanation.shared[:show]
    end = ":" if listed else ""
    out.print(f"{number} of the {explanation.k} nearest reference sentences are shared{end}")
    if listed:
        rows = ((shared.rank_a, shared.rank_b, shared.sentence) for shared in listed)
        out.print(make_table(rows, "rank for a", "rank for b", "shared neighbor"))


def _score(
    model: RankEncoder | Encoder, pairs: Iterable[Pair], curve: ThresholdCurve | None
) -> Iterator[dict[str, Any]]:
    """Yield the similarities of each pair, a thousand pairs at a time: a RankEncoder has three."""
    from rankencoder.blend import blend
    from rankencoder.evaluation.pairwise import encode_pairs, pair_similarities
    from rankencoder.model import RankEncoder

    rows = iter(pairs)
    while chunk := list(islice(rows, 1000)):
        if isinstance(model, RankEncoder):
            encoded = encode_pairs(model.encoder, chunk)
            cosine, ranks = pair_similarities(None, encoded), pair_similarities(model.form, encoded)
            blended = blend(ranks, cosine, model.rank_weight)
            scores = {"cosine": cosine, "rank_similarity": ranks, "similarity": blended}
        else:
            scores = {"similarity": pair_similarities(None, encode_pairs(model, chunk))}
        if curve is not None:
            scores["probability"] = curve.p_same(scores["similarity"])
        for number, pair in enumerate(chunk):
            yield {"a": pair.a, "b": pair.b, **{name: float(of[number]) for name, of in scores.items()}}
