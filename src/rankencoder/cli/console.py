"""Printing, errors and logs of all commands."""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from typer.core import TyperCommand

from rankencoder.errors import InputError, Interrupted
from rankencoder.progress import EVERY, Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.segment import Segment
    from rich.table import Table

    from rankencoder.scale.cluster import RayCluster

_RESUMABLE = ("build", "encode", "evaluate", "index", "label", "reproduce")  # they resume when run again
_SERVERS = ("serve", "explore")
LOGGED = (*_RESUMABLE, *_SERVERS, "advise", "distill", "duplicates", "train", "tune")
_json_lines = False  # whether to log JSON
LOG = logging.getLogger("rankencoder.cli")


class OneLineCommand(TyperCommand):
    """A command whose errors are one line, with exit code 2 for bad input and disk errors."""

    running: ClassVar[Iterable[Any]] = ()  # the parameters of the command that runs

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with _logged(self, ctx.params.get("log_json", False)):
            if Progress.in_log and self.name in LOGGED and self.name not in _SERVERS:
                self._announce(ctx)
            return self._run(ctx)

    def _announce(self, ctx: Any) -> None:
        """Log the given options before the slow imports and model loading."""
        given = {}
        for one in self.params:
            if ctx.get_parameter_source(one.name).name == "COMMANDLINE" and one.name != "log_json":
                value = ctx.params[one.name]
                shown = " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
                given[max(one.opts, key=len).lstrip("-")] = shown
        text = ", ".join(name if value == "True" else f"{name} {value}" for name, value in given.items())
        if os.environ.get("RANK", "0") == "0":  # the first of several that train together
            fields = {"command": self.name, "given": given}
            LOG.info("started %s: %s", self.name, harmless(text), extra={"fields": fields})

    def _run(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except InputError as error:
            fail(name_options(str(error), self.params))
        except BrokenPipeError:
            sys.stderr.close()  # the reader of our output is gone
            sys.exit(1)
        except OSError as error:
            fail(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        except KeyboardInterrupt as stop:
            advice = "" if isinstance(stop, Interrupted) else str(stop)  # it may lie in a temporary folder
            if self.name in _RESUMABLE:
                advice = "to resume, run the same command again"
            elif isinstance(stop, Interrupted) and self.name in ("train", "distill"):
                folder = shlex.quote(str(stop.folder))
                advice = f"to resume, run rankencoder {self.name} --resume -o {folder}"
            fail("interrupted" + (f"; {advice}" if advice else ""), code=130)
        except Exception as error:
            # typer's own errors have exit codes; which click they are from depends on its version
            if hasattr(error, "exit_code") or os.environ.get("RANKENCODER_DEBUG"):
                raise
            what = f"unexpected {type(error).__name__}: {error}"
            fail(f"{what} (RANKENCODER_DEBUG=1 shows where; please report it)", code=1)


def name_options(message: str, parameters: Iterable[Any]) -> str:
    """Replace settings in a message by a command's options: "set `overwrite`" becomes "set --overwrite"."""
    options = {one.name: max(one.opts, key=len) for one in parameters if one.opts[0].startswith("-")}
    return re.sub(r"`(\w+)`", lambda found: options.get(found[1], found[0]), message)


# all but tab and newline: files may hold them, and a terminal interprets them
_ESCAPED = {code: f"\\u{code:04x}" for code in range(127, 160)}  # JSON itself escapes those below 32
_CONTROLS = dict.fromkeys((*range(9), *range(11, 32), *range(127, 160)), "\N{REPLACEMENT CHARACTER}")


def harmless(text: str) -> str:
    r"""Replace control characters, which a terminal would interpret.

    >>> harmless("red \x1b[31malert") == "red \N{REPLACEMENT CHARACTER}[31malert"
    True
    """
    return text.translate(_CONTROLS)


def fail(message: str, code: int = 2) -> NoReturn:
    """Print one line and exit."""
    _write_line("error", message)
    sys.exit(code)


def connect(ray: str | None, workers: int | None = None) -> AbstractContextManager[RayCluster | None]:
    """Return the Ray cluster of a command, or a context without one."""
    if ray is None:
        if workers is not None:
            raise InputError("`workers` needs a cluster: set `ray`, or omit it")
        return nullcontext()
    from rankencoder.scale.cluster import RayCluster

    return RayCluster(ray, workers=workers)


def console() -> Console:
    """Return a console that prints no control characters."""
    from rich.console import Console

    class Harmless(Console):
        def render(self, *args: Any, **kwargs: Any) -> Iterable[Segment]:
            for segment in super().render(*args, **kwargs):
                yield segment if segment.control else segment._replace(text=harmless(segment.text))

    return Harmless(highlight=False)


def make_table(rows: Iterable[Iterable[Any]], *columns: Any) -> Table:
    """Return a borderless table.

    :param rows: The cells of each row: plain text or styled `Text`.
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
    """Print a borderless table (see `make_table`)."""
    console().print(make_table(rows, *columns))


def say(*lines: str) -> None:
    """Print lines, neither styled nor wrapped."""
    for line in lines:
        sys.stdout.write(harmless(line) + "\n")


def print_json(value: Any) -> None:
    """Print a value as one JSON document, with all control characters escaped."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2).translate(_ESCAPED) + "\n")


def prepare(model: str | None = None) -> None:
    """Check that a model exists, then silence the libraries that load it and print warnings as one line."""
    if model is not None:
        from rankencoder.encoder_sources import check_model

        check_model(model)  # before the heavy imports, so that a wrong name fails at once
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    warnings.showwarning = _show_warning


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _write_line("warning", name_options(str(message), OneLineCommand.running))


class _LogLines(logging.Formatter):
    """Formats a command's log as text, or as JSON objects with the message's own fields."""

    def __init__(self, command: OneLineCommand) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s" if command.name in _SERVERS else None)
        self.params = command.params

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = name_options(record.message, self.params)
        if not _json_lines:
            return super().formatMessage(record)
        return _json_line(record.levelname.lower(), record.message, **getattr(record, "fields", {}))


def _json_line(level: str, message: str, **fields: Any) -> str:
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    return json.dumps({"time": now, "level": level, "message": message, **fields})


def _write_line(level: str, message: str) -> None:
    """Write one line to stderr."""
    line = harmless(" ".join(message.split()))
    sys.stderr.write((_json_line(level, line) if _json_lines else f"{level}: {line}") + "\n")


@contextmanager
def _logged(command: OneLineCommand, as_json: bool) -> Iterator[None]:
    """Log to stderr; progress is a bar if that is a terminal."""
    global _json_lines
    OneLineCommand.running = command.params
    _json_lines, Progress.in_log = as_json, as_json or not sys.stderr.isatty()
    Progress.due = time.monotonic() + EVERY
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LogLines(command))
    # uvicorn logs each explorer page that is still open at shutdown as an error
    quiet = logging.CRITICAL if command.name == "explore" else logging.WARNING
    levels = {logging.getLogger("rankencoder"): logging.INFO, logging.getLogger("uvicorn.error"): quiet}
    before = {logger: logger.level for logger in levels}
    for logger, level in levels.items():
        logger.setLevel(level)
        logger.addHandler(handler)
    try:
        yield
    finally:
        _json_lines = Progress.in_log = False
        Progress.active.clear()  # bars of the interrupted work
        for logger, level in before.items():
            logger.setLevel(level)
            logger.removeHandler(handler)
