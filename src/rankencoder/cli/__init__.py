"""The command line. Heavy imports are inside the commands, so that ``--help`` is immediate."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

import typer

from rankencoder.cli.build import build
from rankencoder.cli.compare import explain, neighbors, similarity
from rankencoder.cli.console import OneLineCommand, fail
from rankencoder.cli.data import data
from rankencoder.cli.demo import demo
from rankencoder.cli.distill import distill
from rankencoder.cli.duplicates import duplicates
from rankencoder.cli.encode import encode
from rankencoder.cli.evaluate import evaluate, report
from rankencoder.cli.export import export, push
from rankencoder.cli.index import index, search
from rankencoder.cli.info import info, version
from rankencoder.cli.label import label
from rankencoder.cli.options import with_options
from rankencoder.cli.reproduce import reproduce
from rankencoder.cli.serve import explore, serve
from rankencoder.cli.threshold import threshold
from rankencoder.cli.train import methods, train
from rankencoder.cli.tune import advise, tune

app = typer.Typer(
    name="rankencoder",
    help="Unlabeled text in, a better or faster sentence encoder out.",
    epilog="Start with: rankencoder demo",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(version)
_PANELS: dict[str, tuple[Any, ...]] = {
    "Train and improve encoders": (advise, distill, train, methods, reproduce, build),
    "Compare sentences": (label, threshold, duplicates, similarity, neighbors, explain),
    "Encode and search": (encode, index, search),
    "Evaluate": (evaluate, report, tune),
    "Explore, serve and share": (demo, explore, serve, export, push, info),
}
for panel, commands in _PANELS.items():
    for command in commands:
        app.command(cls=OneLineCommand, rich_help_panel=panel)(with_options(command))
app.add_typer(data, name="data", rich_help_panel="Evaluate")


def main() -> None:
    """Run the command line."""
    # spinning threads compete for the cores: 6 times slower on a busy machine
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not support every character
    try:
        code = app(sys.argv[1:], standalone_mode=False, prog_name="rankencoder")
    except Exception as error:
        # a usage error: which click its class is from depends on typer's version
        if not hasattr(error, "format_message"):
            raise
        context = getattr(error, "ctx", None)
        if type(error).__name__ == "NoArgsIsHelpError":
            sys.stdout.write(error.format_message())  # empty where rich has printed it already
            sys.exit(2)
        where = context.command_path if context else "rankencoder"
        fail(f"{error.format_message().rstrip('.')}. See: {where} --help")
    sys.exit(code or 0)
