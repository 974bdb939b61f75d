"""``rankencoder push``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankencoder.cli.console import say


def push(
    folder: Annotated[
        Path, typer.Argument(help="A RankEncoder, an encoder, a reference corpus or a training run.")
    ],
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="The repository; made if need be.")],
    private: Annotated[bool, typer.Option("--private/--public", help="Who may read a new one.")] = True,
) -> None:
    """Upload a model to the HuggingFace hub, where everything that takes MODEL finds it by name.

    A RankEncoder takes its reference sentences with it. The token is that of `hf auth login` or `HF_TOKEN`.

    Examples:
    - `rankencoder push my-encoder me/my-encoder`

    """
    from rankencoder.encoder_sources import push_folder

    say(push_folder(folder, name, private=private))
