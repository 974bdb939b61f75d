"""``rankencoder explore``."""

from __future__ import annotations

from typing import Annotated

import typer

from rankencoder.cli.console import prepare, server_log
from rankencoder.cli.options import Device, Host, Index, Port


def explore(
    model: Annotated[
        str, typer.Argument(help="A RankEncoder, a training run or, with an index, a plain encoder.")
    ],
    index: Index = None,
    host: Host = "127.0.0.1",
    port: Port = 7860,
    device: Device = None,
) -> None:
    """Show a model on a page: compare sentences live, maps of both spaces, search and near-duplicates.

    Works offline. Ctrl-C ends it.

    Examples:
    - `rankencoder explore my-encoder`

    - `rankencoder explore my-encoder --index my-index --port 8080`

    """
    from rankencoder import explorer

    prepare()
    with server_log(uvicorn="CRITICAL"):  # it calls each page that is open at the end an error
        explorer.explore(model, index, host=host, port=port, device=device)
