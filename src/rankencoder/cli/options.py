"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Device = Annotated[str | None, typer.Option(help="Where to run the encoder, e.g. cpu or cuda.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Sentences per call of the encoder.")]
Column = Annotated[str | None, typer.Option(help="Column or key that holds the sentences.")]
Ray = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Work on a Ray cluster: host:port, auto, or local: this machine."),
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="With --ray: encoders at a time. By default one a GPU, or CPU.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder to write.")]
AnyModel = Annotated[str, typer.Argument(help="A RankEncoder, the folder of a training run, or any encoder.")]
Dev = Annotated[
    list[Path] | None,
    typer.Option(help="Your pairs, scored or labelled yes/no: .tsv, .csv, .jsonl; repeatable."),
]
Corpus = Annotated[Path | None, typer.Option(help="Draw a plain encoder's reference corpus from here.")]
Size = Annotated[int, typer.Option(min=2, help="Sentences of the reference corpus.")]
Aggregation = Annotated[str, typer.Option(help="Of sub-sets: all (the field's), mean or wmean.")]
Index = Annotated[Path | None, typer.Option(help="An index to search, made with the same model.")]
Host = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 is all of them.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")]
