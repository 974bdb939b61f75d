"""``rankencoder distill``, with an option for each setting of a distillation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rankencoder.cli.console import prepare, print_json, say
from rankencoder.cli.options import Json, Overwrite
from rankencoder.cli.setting_options import ConfigFile, HelpAll, Resume, Set, given_settings, setting_options
from rankencoder.distillation.distill_config import DistillConfig, default_text
from rankencoder.errors import InputError

_SETTINGS = setting_options(
    DistillConfig, default_text, flags={"no_header": ["--no-header"]}, left_out=("corpus", "output")
)


def distill(
    corpus: Annotated[
        Path | None,
        typer.Argument(help="Your text: .txt, .jsonl, .csv, .tsv, .parquet, or a folder of them."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder to write.")] = None,
    config: ConfigFile = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before an API is paid.")] = False,
    set: Set = None,
    help_all: HelpAll = False,
    settings: dict[str, Any] = _SETTINGS,
    as_json: Json = False,
) -> None:
    """Make an encoder better or faster: teach it what other encoders agree on, on your own text.

    Needs no labels. Writes OUTPUT/encoder, an ordinary SentenceTransformer with a model card.

    Examples:
    - `rankencoder distill corpus.txt --teacher all-MiniLM-L6-v2 --student static -o fast`
    - `rankencoder distill corpus.txt --teacher A --teacher 'B?prompt=query: ' --student A -o better`
    - `rankencoder distill corpus.txt --teacher A --student A --layers 3 -o smaller`
    - `rankencoder distill corpus.txt --teacher openai:text-embedding-3-small --student static -o mine`
    - `rankencoder distill --resume -o mine`

    """
    given = given_settings(settings, set, DistillConfig)
    corpus, output = given.pop("corpus", corpus), given.pop("output", output)
    prepare()
    from rankencoder.distillation.distill_summary import describe_distillation
    from rankencoder.distillation.distiller import distill as run_distillation

    run = run_distillation(
        corpus,
        output,
        config=config,
        resume=resume,
        overwrite=overwrite,
        progress=True,
        confirm=None if yes else _confirm,
        **given,
    )
    if as_json:
        print_json({"output": str(run.folder), **{k: v for k, v in run.record.items() if k != "history"}})
    else:
        student = f"{run.encoder}: the student, an ordinary SentenceTransformer"
        say(*describe_distillation(run.record), student)
    if run.record["config"]["strict"] and not run.is_nearer:
        raise typer.Exit(1)


def _confirm(estimate: str) -> bool:
    if not sys.stdin.isatty():
        raise InputError("no terminal to confirm the cost: add --resume --yes to continue")
    return typer.confirm("Send them?", err=True)
