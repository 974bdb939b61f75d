"""``rankencoder distill``, with an option for each setting of a distillation."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from rankencoder.cli.console import prepare, say
from rankencoder.cli.options import Json
from rankencoder.cli.setting_options import print_record, run_options
from rankencoder.distillation.distill_config import DistillConfig, default_text
from rankencoder.errors import InputError

_RUN = run_options(DistillConfig, default_text)


def distill(
    given: dict[str, Any] = _RUN,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before using a paid API.")] = False,
    as_json: Json = False,
) -> None:
    """Make an encoder better or faster: distill other encoders into it on your own text.

    Needs no labels. Writes OUTPUT/encoder, an ordinary SentenceTransformer with a model card.

    Examples:
    - `rankencoder distill corpus.txt --teacher all-MiniLM-L6-v2 --student static -o fast`
    - `rankencoder distill corpus.txt --teacher A --teacher 'B?prompt=query: ' --student A -o better`
    - `rankencoder distill corpus.txt --teacher A --student A --layers 3 -o smaller`
    - `rankencoder distill corpus.txt --teacher openai:text-embedding-3-small --student static -o mine`
    - `rankencoder distill --resume -o mine`

    """
    prepare()
    from rankencoder.distillation.distill_summary import describe_distillation
    from rankencoder.distillation.distiller import distill as run_distillation

    run = run_distillation(progress=True, confirm=None if yes else _confirm, **given)
    if as_json:
        print_record(run)
    else:
        student = f"{run.encoder}: the student, an ordinary SentenceTransformer"
        say(*describe_distillation(run.record), student)
    if run.record["config"]["strict"] and not run.is_nearer:
        raise typer.Exit(1)


def _confirm(estimate: str) -> bool:
    if not sys.stdin.isatty():
        raise InputError("no terminal to confirm the cost: add --resume --yes to continue")
    return typer.confirm("Send them?", err=True)
