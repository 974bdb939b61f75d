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
            help="A RankEncoder, a training run or, with an index, a plain encoder. "
            "[default: the demo's encoder and docstrings]"
        ),
    ] = None,
    index: Index = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="Label pairs of the index into this file (.tsv), new or to resume."),
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = 7860,
    opening: Opening = OPENING,
) -> None:
    """Explore a model on a web page: compare sentences, maps, search, labeling.

    Without a model, distills one on the docstrings of your Python first, once. Ctrl-C stops it.

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
