"""``rankencoder explore``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankencoder.backends.opening import Opening
from rankencoder.cli.console import prepare
from rankencoder.cli.options import OPENING, Host, Index, Port


def explore(
    model: Annotated[
        str | None,
        typer.Argument(
            help="A RankEncoder or training run; with --index, any encoder. [default: the demo's encoder]"
        ),
    ] = None,
    index: Index = None,
    labels: Annotated[Path | None, typer.Option(help="Label pairs of the index into this .tsv file.")] = None,
    host: Host = "127.0.0.1",
    port: Port = 7860,
    opening: Opening = OPENING,
) -> None:
    """Explore a model in the browser: compare sentences, view maps, search, label.

    Without a model, first distills one on the docstrings of your Python, once. Press Ctrl-C to stop.

    Examples:
    - `rankencoder explore`
    - `rankencoder explore my-encoder`
    - `rankencoder explore my-encoder --index my-index --port 8080`
    - `rankencoder explore my-encoder --index my-index --labels labels.tsv`

    """
    from rankencoder import explorer
    from rankencoder.errors import InputError

    prepare()
    if model is None:
        if index is not None:
            raise InputError("no model: give the one that the index was made with")
        from rankencoder.demo.playground import make_playground

        folder, index = make_playground()
        model = str(folder)
    explorer.explore(model, index, labels=labels, host=host, port=port, **opening)
