"""``rankencoder encode``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rankencoder.backends.opening import Opening
from rankencoder.cli.console import connect, prepare, print_json, say
from rankencoder.cli.options import OPENING, READING, AnyModel, Json, Overwrite, Ray, Workers
from rankencoder.io.read_options import ReadOptions


def encode(
    model: AnyModel,
    source: Annotated[
        str, typer.Argument(metavar="INPUT", help="Sentences: file, folder or URL (see build).")
    ],
    output: Annotated[
        str,
        typer.Option("--output", "-o", help=".parquet, .jsonl, .csv or .npy; with --ray, a Parquet folder."),
    ],
    reading: ReadOptions = READING,
    skip_invalid: Annotated[bool, typer.Option("--skip-invalid", help="Skip empty and long lines.")] = False,
    opening: Opening = OPENING,
    ray: Ray = None,
    workers: Workers = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Encode sentences as unit vectors whose cosine is the blended similarity.

    Keeps the columns of a table with their types; .npy holds vectors alone, and NAME.npy.json the ids. Reads
    and writes in parts. If interrupted, run the same command again to resume.

    Examples:
    - `rankencoder encode my-encoder sentences.txt -o vectors.npy`
    - `rankencoder encode my-encoder tickets.csv --column question --keep ticket,date -o vectors.parquet`
    - `rankencoder encode my-encoder s3://bucket/corpus --ray 10.0.0.1:6379 -o s3://bucket/vectors`

    """
    prepare()
    settings: dict[str, Any] = {
        "column": reading,
        "skip_invalid": skip_invalid,
        "overwrite": overwrite,
        "progress": True,
        **opening,
    }
    with connect(ray, workers) as cluster:
        if cluster is None:
            from rankencoder.vector_files import encode_file

            counts = encode_file(model, source, output, **settings)
        else:
            from rankencoder.scale.cluster_encoding import encode_with_ray

            counts = encode_with_ray(model, source, output, cluster, **settings)
    if as_json:
        print_json({"output": str(output), **counts})
        return
    notes = [f"{counts[key]:,} {key}" for key in ("resumed", "skipped") if counts[key]]
    total = counts["encoded"] + counts["resumed"]
    say(f"{output}: {total:,} vectors" + (f" ({', '.join(notes)})" if notes else ""))
