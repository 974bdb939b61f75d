"""``rankencoder report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankencoder.cli.console import say
from rankencoder.cli.options import Overwrite
from rankencoder.errors import InputError


def report(
    results: Annotated[list[Path], typer.Argument(help="Results of evaluate: JSON files or folders.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write: .html or .md.")] = Path(
        "report.html"
    ),
    papers: Annotated[bool, typer.Option("--papers", help="Add published results of BERT-base.")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Report which encoder and similarity is best, and whether the difference is real.

    Writes one self-contained page to share, print, or read in light or dark mode.

    Examples:
    - `rankencoder report evaluation -o report.html`
    - `rankencoder report evaluation/my-run-1.json evaluation/my-run-2.json`
    - `rankencoder report evaluation -o report.md`

    """
    from rankencoder.report import report as make
    from rankencoder.report.rendering import is_report

    if output.exists() and not overwrite and not is_report(output):
        raise InputError(
            f"{output} already exists and is not a report: choose another name or set `overwrite`"
        )
    format = "md" if output.suffix.lower() in (".md", ".markdown") else "html"
    make(list(results), output, format=format, papers=papers)
    say(str(output))
