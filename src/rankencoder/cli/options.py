"""Options that several commands have."""

from __future__ import annotations

import atexit
import inspect
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from rankencoder.io.read_options import ReadOptions

_NO_HEADER = "The CSV file has no header row."


def _text(help: str, *flags: str) -> Any:
    return Annotated[str | None, typer.Option(*flags, help=help)]


Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Sentences per call of the encoder.")]
Device = Annotated[str | None, typer.Option(help="Where to run the encoder, e.g. cpu or cuda.")]
Column = Annotated[
    str | None,
    typer.Option(help="Column or key that holds the sentences; ticket.body is a key within a key."),
]
_READING: dict[str, tuple[Any, Any]] = {
    "column": (None, Column),
    "id_column": (None, _text("Column that holds the ids. By default id, if there is one.", "--id")),
    "keep": (None, _text("Columns to carry along, such as id,date. By default all.")),
    "delimiter": (None, _text("Separator of a CSV file. By default detected.")),
    "no_header": (False, Annotated[bool, typer.Option("--no-header", help=_NO_HEADER)]),
    "split": (None, _text("Split long texts: sentences, sentences:de (another language), or 128-tokens.")),
}
Ray = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Work on a Ray cluster: host:port, auto, or local: this machine."),
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="With --ray: encoders at a time. By default one a GPU, or CPU.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
RowFile = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write to a .parquet, .jsonl or .csv file instead.")
]
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder to write.")]
AnyModel = Annotated[str, typer.Argument(help="A RankEncoder, the folder of a training run, or any encoder.")]
Dev = Annotated[
    list[Path] | None,
    typer.Option(help="Your pairs, scored or labeled yes/no: .tsv, .csv, .jsonl. Repeatable."),
]
Corpus = Annotated[Path | None, typer.Option(help="Corpus of a plain encoder's reference sentences.")]
Size = Annotated[int, typer.Option(min=2, help="Sentences of the reference corpus.")]
Index = Annotated[Path | None, typer.Option(help="An index to search, made with the same model.")]
Host = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 is all of them.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")]


_OPENING: dict[str, tuple[Any, Any]] = {
    "device": (None, Device),
    "batch_size": (32, BatchSize),
    "backend": (
        "torch",
        Annotated[
            str, typer.Option(help="What computes vectors: torch, openvino, onnx, or auto: the fastest.")
        ],
    ),
    "precision": (None, _text("fp32, bf16 or int8. By default exact, with --backend auto the fastest.")),
}
HERE: Any = {}


def opens_models(command: Any, left_out: Collection[str] = ()) -> Any:
    """Give a command the options of how its models run, in place of its parameter ``opening``."""
    options = {name: option for name, option in _OPENING.items() if name not in left_out}

    def gather(given: dict[str, Any]) -> None:
        given["opening"] = {name: given.pop(name) for name in options if name in given}

    return _expanded(command, "opening", options, gather)


def reads_corpus(command: Any, left_out: Collection[str] = ()) -> Any:
    """Give a command the options of how its corpus is read, in place of its parameter ``reading``."""

    def gather(given: dict[str, Any]) -> None:
        reading = _read_options(**{name: given.pop(name, default) for name, (default, _) in _READING.items()})
        for name in ("corpus", "source"):
            if str(given.get(name)) == "-":
                given[name], reading = _spool_stdin(reading), replace(reading, source="stdin")
        given["reading"] = reading

    options = {name: option for name, option in _READING.items() if name not in left_out}
    return _expanded(command, "reading", options, gather)


def _expanded(
    command: Any,
    parameter: str,
    options: dict[str, tuple[Any, Any]],
    gather: Callable[[dict[str, Any]], None],
) -> Any:
    """Return a command with options in place of a parameter, which is gathered from them when it runs."""
    parameters = []
    for one in inspect.signature(command, eval_str=True).parameters.values():
        made = options if one.name == parameter else {one.name: (one.default, one.annotation)}
        parameters += [
            inspect.Parameter(name, one.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (default, kind) in made.items()
        ]

    @wraps(command)
    def run(**given: Any) -> None:
        gather(given)
        command(**given)

    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _read_options(**given: Any) -> ReadOptions:
    if given["keep"] is not None:
        given["keep"] = tuple(name.strip() for name in given["keep"].split(",") if name.strip())
    return ReadOptions(id=given.pop("id_column"), header=False if given.pop("no_header") else None, **given)


def _spool_stdin(reading: ReadOptions) -> Path:
    """Return a file of standard input, as tables are read twice; it is deleted when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="rankencoder-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    first = sys.stdin.buffer.read(1)
    is_table = reading.column or reading.delimiter or reading.header is not None
    suffix = ".jsonl" if first == b"{" else ".csv" if is_table else ".txt"
    with open(folder / f"stdin{suffix}", "wb") as file:
        file.write(first)
        shutil.copyfileobj(sys.stdin.buffer, file)
    return Path(file.name)
