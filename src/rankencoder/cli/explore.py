"""``rankencoder explore``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankencoder.cli.console import Device, log_to_stderr, quiet_libraries


def explore(
    model: Annotated[
        str, typer.Argument(help="A RankEncoder, a training run or, with an index, a plain encoder.")
    ],
    index: Annotated[Path | None, typer.Option(help="An index to search, made with the same model.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 is all of them.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 7860,
    device: Device = None,
) -> None:
    """Show a model on a page: compare sentences live, maps of both spaces, search and near-duplicates.

    Works offline. Ctrl-C ends it.

    Examples:
    - `rankencoder explore my-encoder`

    - `rankencoder explore my-encoder --index my-index --port 8080`

    """
    from rankencoder import explorer

    quiet_libraries()
    with log_to_stderr(uvicorn="CRITICAL"):  # it calls each page that is open at the end an error
        explorer.explore(model, index, host=host, port=port, device=device)
