"""``rankencoder data``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankencoder.cli.console import OneLineCommand, print_json, say
from rankencoder.cli.options import Json

data = typer.Typer(
    help="Fetch public data for training and evaluation.", no_args_is_help=True, rich_markup_mode="markdown"
)


@data.callback()
def _group() -> None:
    """Keep ``fetch`` a subcommand, although it is the only one."""


def fetch(
    what: Annotated[
        list[str] | None, typer.Argument(help="senteval (STS and classification sets) or wiki1m (sentences).")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write. [default: the cache]")
    ] = None,
    as_json: Json = False,
) -> None:
    """Download public data from the Hugging Face hub; by default SentEval.

    Skips data that is already there.

    Examples:
    - `rankencoder data fetch`
    - `rankencoder data fetch senteval wiki1m -o data`

    """
    from rankencoder.evaluation.public_data import fetch_data

    chosen = what or ["senteval"]
    folder = fetch_data(chosen, output)
    if as_json:
        print_json({"folder": str(folder), "data": chosen})
    else:
        say(f"{folder}: {', '.join(chosen)}")


data.command(cls=OneLineCommand)(fetch)
