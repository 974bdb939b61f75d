"""``rankencoder report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankencoder.cli.console import Overwrite
from rankencoder.errors import InputError

_SUFFIXES = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md"}


def report(
    results: Annotated[
        list[Path], typer.Argument(help="What rankencoder evaluate wrote: JSON files, or folders of them.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write (report.html or report.md).")
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="html or md; by default by the name of the file.")
    ] = None,
    aggregation: Annotated[str, typer.Option(help="Of sub-sets: all (the field's), mean or wmean.")] = "all",
    overwrite: Overwrite = False,
) -> None:
    """Tell what an evaluation found, on one page: whether rank vectors help, what to use, and why.

    The page needs nothing else: it can be sent on, printed, and read by light and by dark.

    Examples:
    - `rankencoder report evaluation -o report.html`

    - `rankencoder report evaluation/my-run-1.json evaluation/my-run-2.json`

    - `rankencoder report evaluation --format md`

    """
    from rankencoder.report import report as make

    how, path = _target(output, format)
    _check_free(path, overwrite)
    make(list(results), path, format=how, aggregation=aggregation)
    typer.echo(str(path))


def _target(output: Path | None, format: str | None) -> tuple[str, Path]:
    """Return format and file, whichever of them was given."""
    inferred = _SUFFIXES.get(output.suffix.lower()) if output is not None else None
    how = (format or inferred or "html").lower()
    if format is not None and inferred is not None and how != inferred:
        raise InputError(f"{output} is named like {inferred}, but --format is {format}: change one of them")
    return how, output or Path(f"report.{how}")


def _check_free(path: Path, overwrite: bool) -> None:
    """Refuse to replace what is not a report of ours, unless asked to."""
    from rankencoder.report.rendering import is_report

    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file")
    if path.exists() and not overwrite and not is_report(path):
        raise InputError(f"{path} already exists and is no report: choose another name, or --overwrite it")
