"""``rankencoder build``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rankencoder.backends.opening import Opening
from rankencoder.cli.console import connect, prepare
from rankencoder.cli.options import OPENING, READING_TEXT, Json, Output, Overwrite, Ray, Size
from rankencoder.io.read_options import ReadOptions


def build(
    encoder: Annotated[str, typer.Argument(help="A SentenceTransformer: folder or hub name[@revision].")],
    corpus: Annotated[
        str,
        typer.Argument(
            help="Sentences: .txt, .jsonl, .csv, .tsv, .parquet; a folder, quoted glob or URL of them "
            "(s3://bucket/folder); or - for standard input."
        ),
    ],
    output: Output,
    others: Annotated[
        list[str] | None, typer.Option("--with", help="Another encoder to fuse with the first. Repeatable.")
    ] = None,
    size: Size = 10_000,
    seed: Annotated[int, typer.Option(help="Random seed of the reference sample.")] = 42,
    form: Annotated[str, typer.Option(help="Rank vectors: exact, compact or linear.")] = "compact",
    dim: Annotated[int | None, typer.Option(help="Dimensions of the compact form. [default: 256]")] = None,
    power: Annotated[float | None, typer.Option(help="Power of the linear form. [default: 0.5]")] = None,
    rank_weight: Annotated[
        float | None, typer.Option(help="Weight of the ranks, 0 to 1. [default: 0.1; fused: 0]")
    ] = None,
    reading: ReadOptions = READING_TEXT,
    max_chars: Annotated[int, typer.Option(min=1, help="Drop longer sentences.")] = 2000,
    opening: Opening = OPENING,
    ray: Ray = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Build a RankEncoder from one or more encoders and a corpus.

    If interrupted, run the same command again to resume.

    Examples:
    - `rankencoder build sentence-transformers/all-MiniLM-L6-v2 corpus.txt -o my-encoder`
    - `rankencoder build ./my-model corpus.parquet --column body --size 100000 -o my-encoder`
    - `rankencoder build ./one-model corpus.txt --with ./another-model -o fused`

    """
    from rankencoder.blend import check_rank_weight
    from rankencoder.cli.info import describe, print_description
    from rankencoder.forms import check_settings
    from rankencoder.io.parts import clear_leftover_parts, clear_parts
    from rankencoder.io.storage import check_free

    clear_leftover_parts(output)
    check_free(output, overwrite=overwrite)
    check_rank_weight(rank_weight or 0)
    check_settings(form, dim=dim, power=power)
    prepare()
    from rankencoder.fused_encoder import open_encoder
    from rankencoder.model import RankEncoder
    from rankencoder.reference import Reference

    loaded = open_encoder([encoder, *others] if others else encoder, **opening)
    source: Any = corpus
    with connect(ray) as cluster:
        if cluster is not None:
            from rankencoder.scale.pieces import sample_with_ray
            from rankencoder.text_fit import with_tokenizer

            options = with_tokenizer(reading, loaded)
            source = sample_with_ray(corpus, cluster, size, seed, column=options, max_chars=max_chars)
    reference = Reference.build(
        loaded,
        source,
        size=size,
        seed=seed,
        column=reading,
        max_chars=max_chars,
        progress=True,
        resume_beside=output,
    )
    model = RankEncoder(
        loaded, reference, form=form, dim=dim, power=power, rank_weight=rank_weight, progress=False
    )
    model.save(output, overwrite=overwrite)
    clear_parts(output)
    del model, reference  # makes room for what is read now
    print_description(describe(output), as_json)
