"""The command line. Heavy imports are inside the commands, so that ``--help`` is immediate."""

from __future__ import annotations

import sys

import typer

from rankencoder.cli.build import build
from rankencoder.cli.compare import explain, neighbors, similarity
from rankencoder.cli.console import fail
from rankencoder.cli.demo import demo
from rankencoder.cli.encode import encode
from rankencoder.cli.info import info, version
from rankencoder.errors import InputError

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
    app.command()(command)


def main() -> None:
    """Run the command line: input errors become one line and exit code 2."""
    try:
        app()
    except InputError as error:
        fail(str(error))
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output is gone; there is nobody left to tell
        sys.exit(1)
    except OSError as error:
        fail(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
    except KeyboardInterrupt:
        fail("interrupted; the same command goes on where it stopped", code=130)
