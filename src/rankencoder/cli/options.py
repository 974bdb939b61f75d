"""Options shared by several commands."""

from __future__ import annotations

import atexit
import inspect
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from rankencoder.cli.console import LOGGED, print_json, say
from rankencoder.io.read_options import ReadOptions

_NO_HEADER = "The CSV file has no header row."


def _text(help: str, *flags: str) -> Any:
    return Annotated[str | None, typer.Option(*flags, help=help)]


_LogJson = Annotated[bool, typer.Option("--log-json", help="Log JSON lines.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Sentences per batch.")]
Device = Annotated[str | None, typer.Option(help="Device of the encoder, e.g. cpu or cuda.")]
Column = Annotated[str | None, typer.Option(help="Text column or JSON key; ticket.body for a nested one.")]
_READING: dict[str, tuple[Any, Any]] = {
    "column": (None, Column),
    "id_column": (None, _text("Column of the ids. [default: id, if present]", "--id")),
    "keep": (None, _text("Columns to keep, e.g. id,date. [default: all]")),
    "delimiter": (None, _text("Delimiter of a CSV file. [default: detected]")),
    "no_header": (False, Annotated[bool, typer.Option("--no-header", help=_NO_HEADER)]),
    "split": (None, _text("Split long texts: sentences, sentences:de (other languages), or 128-tokens.")),
}
Ray = Annotated[str | None, typer.Option(help="Run on a Ray cluster: host:port, auto, or local.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Encoders on the cluster. [default: one per GPU or CPU]")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing output.")]
_RowFile = Annotated[Path | None, typer.Option("--output", "-o", help="Write .parquet, .jsonl or .csv.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder to write.")]
AnyModel = Annotated[str, typer.Argument(help="A RankEncoder, a training run or any encoder.")]
Dev = Annotated[
    list[Path] | None, typer.Option(help="Your pairs, scored or yes/no: .tsv, .csv, .jsonl. Repeatable.")
]
Corpus = Annotated[Path | None, typer.Option(help="Reference corpus for a plain encoder.")]
Size = Annotated[int, typer.Option(min=2, help="Sentences of the reference corpus.")]
Index = Annotated[Path | None, typer.Option(help="Index to search, made with the same model.")]
Host = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any free one.")]


class OptionGroup(NamedTuple):
    """Options that a command takes as one parameter; the group is its default value.

    :param options: The default and the declaration of each.
    :param gather: A function from the options' values to the parameter's.
    """

    options: dict[str, tuple[Any, Any]]
    gather: Callable[..., Any] = dict


def _read_options(
    *, no_header: bool, id_column: str | None = None, keep: str | None = None, **given: Any
) -> Any:
    names = None if keep is None else tuple(name.strip() for name in keep.split(",") if name.strip())
    return ReadOptions(id=id_column, keep=names, header=False if no_header else None, **given)


OPENING: Any = OptionGroup(
    {
        "device": (None, Device),
        "batch_size": (32, BatchSize),
        "backend": ("torch", _text("Runtime: torch, openvino, onnx, or auto for the fastest.")),
        "precision": (None, _text("fp32, bf16 or int8. [default: exact; with --backend auto, fastest]")),
    }
)


class RowOutput:
    """Where a command lists rows: in a file, as JSON, or on the terminal."""

    def __init__(self, *, output: Path | None, overwrite: bool, as_json: bool) -> None:
        self.output, self.overwrite, self.as_json = output, overwrite, as_json
        if output is not None:
            from rankencoder.io.row_files import check_row_file

            check_row_file(output, overwrite=overwrite)

    def write(self, rows: list[dict[str, Any]], one: str, as_data: Any = None) -> bool:
        """Write rows to the file or as JSON; False if the terminal wants a table.

        :param one: The noun for a row.
        :param as_data: The JSON to print, if not the rows.
        """
        if self.output is not None:
            from rankencoder.formatting import plural
            from rankencoder.io.row_files import write_rows

            write_rows(self.output, rows, overwrite=self.overwrite)
            say(f"{self.output}: {plural(len(rows), one)}")
        elif self.as_json:
            print_json(rows if as_data is None else as_data)
        return self.output is not None or self.as_json


ROWS: Any = OptionGroup(
    {"output": (None, _RowFile), "overwrite": (False, Overwrite), "as_json": (False, Json)}, RowOutput
)
READING: Any = OptionGroup(_READING, _read_options)
READING_TEXT: Any = OptionGroup(
    {name: option for name, option in _READING.items() if name not in ("id_column", "keep")}, _read_options
)


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Expand a command's option groups into options, and add --log-json if it logs.

    Omits the options of a group that the command declares itself.
    """
    own = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, OptionGroup] = {}
    declared: dict[str, tuple[Any, Any]] = {}
    for name, one in own.items():
        if isinstance(one.default, OptionGroup):
            options = {key: option for key, option in one.default.options.items() if key not in own}
            groups[name] = one.default._replace(options=options)
            declared |= options
        else:
            declared[name] = (one.default, one.annotation)
    if command.__name__ in LOGGED:
        declared["log_json"] = (False, _LogJson)

    @wraps(command)
    def run(**given: Any) -> None:
        given.pop("log_json", None)  # `OneLineCommand` reads it
        for name, group in groups.items():
            given[name] = group.gather(**{key: given.pop(key) for key in group.options})
        if "reading" in groups:
            _read_stdin(given)
        command(**given)

    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (default, annotation) in declared.items()
    ]
    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _read_stdin(given: dict[str, Any]) -> None:
    for name in ("corpus", "source"):
        if str(given.get(name)) == "-":
            given[name] = _spool_stdin(given["reading"])
            given["reading"] = replace(given["reading"], source="stdin")


def _spool_stdin(reading: ReadOptions) -> Path:
    """Copy standard input to a file, as tables are read twice; it is deleted on exit."""
    folder = Path(tempfile.mkdtemp(prefix="rankencoder-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    first = sys.stdin.buffer.read(1)
    is_table = reading.column or reading.delimiter or reading.header is not None
    suffix = ".jsonl" if first == b"{" else ".csv" if is_table else ".txt"
    with open(folder / f"stdin{suffix}", "wb") as file:
        file.write(first)
        shutil.copyfileobj(sys.stdin.buffer, file)
    return Path(file.name)
