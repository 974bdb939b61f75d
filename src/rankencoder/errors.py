"""Errors and warnings about user input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

_LONGEST = 2000  # most characters of a message
_INSTALL = "run pip install -c constraints.txt '.[{}]' in a clone of rankencoder"  # not on PyPI yet


class InputError(ValueError):
    """Invalid input (text, vectors, folders, options). The message says what is wrong, where, and what to do.

    The command line prints the message as one line and exits with code 2. Long messages are shortened.
    """

    def __init__(self, message: str) -> None:
        half = _LONGEST // 2
        super().__init__(message if len(message) <= _LONGEST else f"{message[:half]} … {message[-half:]}")


class MissingExtraError(InputError):
    """A missing package that an extra installs.

    :param what: Which feature needs which package.
    """

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what}: {_INSTALL.format(extra)}")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in a run that can be resumed from its folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"the run in {folder} can be resumed")
        self.folder = folder


class ReferenceWarning(UserWarning):
    """A reference corpus that is too small for good rank vectors."""


class TextWarning(UserWarning):
    """Text that the model truncates or whose language it may not know."""


class BackendWarning(UserWarning):
    """A backend or precision other than the requested one, or one of low fidelity."""


class TrainingWarning(UserWarning):
    """Training data or settings that a method was not designed for."""


class LabelWarning(UserWarning):
    """Labels, or a curve fitted to them, that do not apply as given."""


def nearest(name: str, names: Iterable[str]) -> str:
    """Return " did you mean 'x'?" for the most similar known name, or the list of known names.

    >>> nearest("batchsize", ["batch_size", "epochs"])
    " did you mean 'batch_size'?"
    >>> nearest("color", ["batch_size", "epochs"])
    ' choose from batch_size, epochs'
    """
    names = list(names)
    return resembling(name, names) or f" choose from {', '.join(names)}"


def find_name(name: str, names: Iterable[str]) -> str | None:
    """Return the matching name, ignoring case, spaces and hyphens.

    >>> find_name("STSB", ["STS12", "STS-B"]), find_name("sts", ["STS12"])
    ('STS-B', None)
    """

    def letters(name: str) -> str:
        return "".join(sign for sign in name.lower() if sign.isalnum())

    return next((known for known in names if letters(known) == letters(name)), None)


def resembling(name: str, names: Iterable[str]) -> str:
    """Return " did you mean 'x'?" for the most similar known name, or an empty string."""
    lowered = {known.lower(): known for known in names}
    found = get_close_matches(name.lower(), lowered, n=1)
    return f" did you mean {lowered[found[0]]!r}?" if found else ""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def shorten(text: str, width: int = 60) -> str:
    """Truncate text to a width, with an ellipsis."""
    return text if len(text) <= width else text[: width - 1] + "…"


@contextmanager
def located(place: str) -> Iterator[None]:
    """Prefix input errors with their location."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
