"""``rankencoder push``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankencoder.cli.console import say


def push(
    folder: Annotated[Path, typer.Argument(help="RankEncoder, encoder, reference corpus or training run.")],
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Repository; created if missing.")],
    private: Annotated[
        bool, typer.Option("--private/--public", help="Visibility of a new repository.")
    ] = True,
) -> None:
    """Upload a model to the Hugging Face hub, to load it anywhere by name.

    Uploads a RankEncoder with its reference sentences. Log in with `hf auth login`, or set HF_TOKEN.

    Examples:
    - `rankencoder push my-encoder me/my-encoder`

    """
    from rankencoder.encoder_sources import push_folder

    say(push_folder(folder, name, private=private))
