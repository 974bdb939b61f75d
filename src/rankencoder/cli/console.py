"""What the commands have in common: printing, errors, quiet libraries."""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from typer.core import TyperCommand

from rankencoder.errors import InputError, Interrupted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.segment import Segment
    from rich.table import Table

    from rankencoder.scale.cluster import RayCluster

_REPEATED = (
    "build",
    "encode",
    "evaluate",
    "index",
    "reproduce",
)  # commands that resume if they are run again


class OneLineCommand(TyperCommand):
    """A command that ends with one line, and exit code 2 where the input or the disk is at fault."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            fail(with_options(str(error), self.params))
        except BrokenPipeError:
            sys.stderr.close()  # the reader of our output is gone; there is nobody left to tell
            sys.exit(1)
        except OSError as error:
            fail(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        except KeyboardInterrupt as stop:
            command = "the same command again" if self.name in _REPEATED else ""
            if isinstance(stop, Interrupted):
                command = f"rankencoder {self.name} --resume -o {shlex.quote(str(stop.folder))}"
            advice = f"to resume, run {command}" if command else str(stop)
            fail("interrupted" + (f"; {advice}" if advice else ""), code=130)
        except Exception as error:
            # typer's own errors have exit codes; which click they are from depends on its version
            if hasattr(error, "exit_code") or os.environ.get("RANKENCODER_DEBUG"):
                raise
            what = f"unexpected {type(error).__name__}: {error}"
            fail(f"{what} (RANKENCODER_DEBUG=1 shows where; please report it)", code=1)


def with_options(message: str, parameters: Iterable[Any]) -> str:
    """Return a message with a command's options for the settings: "set `overwrite`" gives --overwrite."""
    options = {one.name: max(one.opts, key=len) for one in parameters if one.opts[0].startswith("-")}
    return re.sub(r"`(\w+)`", lambda found: options.get(found[1], found[0]), message)


# \t and \n aside; a terminal takes the others for commands, and files may hold them
_ESCAPED = {code: f"\\u{code:04x}" for code in range(127, 160)}  # JSON itself escapes those below 32
_CONTROLS = dict.fromkeys((*range(9), *range(11, 32), *range(127, 160)), "\N{REPLACEMENT CHARACTER}")


def harmless(text: str) -> str:
    r"""Return a text without characters that a terminal would obey.

    >>> harmless("red \x1b[31malert") == "red \N{REPLACEMENT CHARACTER}[31malert"
    True
    """
    return text.translate(_CONTROLS)


def fail(message: str, code: int = 2) -> NoReturn:
    """Print one line and exit."""
    sys.stderr.write(f"error: {harmless(' '.join(message.split()))}\n")
    sys.exit(code)


@contextmanager
def connected(ray: str | None, workers: int | None) -> Iterator[RayCluster | None]:
    """Give the Ray cluster that a command was told to work on, if it was."""
    if ray is None:
        if workers is not None:
            raise InputError("`workers` is for a cluster: set `ray` too, or leave it out")
        yield None
        return
    from rankencoder.scale.cluster import RayCluster

    with RayCluster(ray, workers=workers) as cluster:
        yield cluster


def console() -> Console:
    """Return the console that tables go to."""
    from rich.console import Console

    class Harmless(Console):
        def render(self, *args: Any, **kwargs: Any) -> Iterable[Segment]:
            for segment in super().render(*args, **kwargs):
                yield segment if segment.control else segment._replace(text=harmless(segment.text))

    return Harmless(highlight=False)


def make_table(rows: Iterable[Iterable[Any]], *columns: Any) -> Table:
    """Return a table without lines.

    :param rows: The cells of each row: text that is printed as it is, or styled `Text`.
    :param columns: The headings, or columns of rich; none for a table without a heading.
    """
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    headings = [escape(column) if isinstance(column, str) else column for column in columns]
    table = Table(*headings, box=None, pad_edge=False, show_header=bool(headings))
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else escape(str(cell)) for cell in row))
    return table


def print_table(rows: Iterable[Iterable[Any]], *columns: Any) -> None:
    """Print a table without lines (see `make_table`)."""
    console().print(make_table(rows, *columns))


def print_json(value: Any) -> None:
    """Print a value as one JSON document; control characters are escaped, those beyond ASCII too."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2).translate(_ESCAPED) + "\n")


def is_watched() -> bool:
    """Say whether a person sees the error output, where progress is shown."""
    return sys.stderr.isatty()


def prepare(model: str | None = None) -> None:
    """Check that a model is there, then quiet the libraries that load it and print warnings as one line."""
    if model is not None:
        from rankencoder.encoder_sources import check_model

        check_model(model)  # before the heavy imports: a wrong name is told at once
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    warnings.showwarning = _show_warning


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    sys.stderr.write(f"warning: {harmless(' '.join(str(message).split()))}\n")


@contextmanager
def log_to_stderr(name: str, level: str = "INFO", form: str = "%(message)s") -> Iterator[None]:
    """Write what a logger logs from a level on to the error output."""
    logger, handler = logging.getLogger(name), logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(form))
    before = logger.level
    logger.setLevel(level)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


@contextmanager
def server_log(uvicorn: str = "WARNING") -> Iterator[None]:
    """Write our log to the error output, and uvicorn's messages from a level on."""
    form = "%(asctime)s %(levelname)s %(message)s"
    with log_to_stderr("rankencoder", form=form), log_to_stderr("uvicorn.error", uvicorn, form):
        yield
