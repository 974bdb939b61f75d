"""The command line. Heavy imports are inside the commands, so that ``--help`` is immediate."""

from __future__ import annotations

import typer

from rankencoder.cli.build import build
from rankencoder.cli.compare import explain, neighbors, similarity
from rankencoder.cli.console import told_in_one_line
from rankencoder.cli.demo import demo
from rankencoder.cli.encode import encode
from rankencoder.cli.info import info, version

app = typer.Typer(
    name="rankencoder",
    help="Sentence vectors that know how a sentence ranks a reference corpus.",
    epilog="Start with: rankencoder demo",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(version)
for command in (build, encode, similarity, neighbors, explain, info, demo):
    app.command()(told_in_one_line(command))


def main() -> None:
    """Run the command line."""
    app()
