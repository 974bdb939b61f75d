"""Errors and warnings about the input, in words that say what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

_LONGEST = 2000  # characters of a message
_INSTALL = "run pip install -c constraints.txt '.[{}]' in a clone of rankencoder"  # it is on no index yet


class InputError(ValueError):
    """Wrong input from outside (text, vectors, folders, options): says what, where, and what to do.

    The command line prints its message as one line and exits with code 2. What input says of itself may be of
    any length: of a long message beginning and end are kept.
    """

    def __init__(self, message: str) -> None:
        half = _LONGEST // 2
        super().__init__(message if len(message) <= _LONGEST else f"{message[:half]} … {message[-half:]}")


class MissingExtraError(InputError):
    """A package that an extra installs is missing.

    :param what: What needs which package.
    """

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what}: {_INSTALL.format(extra)}")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in a run whose folder it can be resumed in."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"the run in {folder} can be resumed")
        self.folder = folder


class ReferenceWarning(UserWarning):
    """The reference corpus is usable, but smaller than rank vectors like."""


class TextWarning(UserWarning):
    """The text is usable, but the model reads only a part of it, or may not know its language."""


class BackendWarning(UserWarning):
    """Another backend or precision than the one asked for, or less faithful than one would expect."""


class TrainingWarning(UserWarning):
    """The training data is usable, but not what a method was made for."""


class LabelWarning(UserWarning):
    """Labels, or a curve that was made of them, are not usable as they were meant."""


def nearest(name: str, names: Iterable[str]) -> str:
    """Return " did you mean 'x'?" where a name resembles one of those that exist, otherwise list these.

    >>> nearest("batchsize", ["batch_size", "epochs"])
    " did you mean 'batch_size'?"
    >>> nearest("colour", ["batch_size", "epochs"])
    ' choose from batch_size, epochs'
    """
    names = list(names)
    return resembling(name, names) or f" choose from {', '.join(names)}"


def find_name(name: str, names: Iterable[str]) -> str | None:
    """Return the one of some names that is meant, whatever its case, spaces and hyphens.

    >>> find_name("STSB", ["STS12", "STS-B"]), find_name("sts", ["STS12"])
    ('STS-B', None)
    """

    def letters(name: str) -> str:
        return "".join(sign for sign in name.lower() if sign.isalnum())

    return next((known for known in names if letters(known) == letters(name)), None)


def resembling(name: str, names: Iterable[str]) -> str:
    """Return " did you mean 'x'?" where a name resembles one of those that exist, otherwise nothing."""
    lowered = {known.lower(): known for known in names}
    found = get_close_matches(name.lower(), lowered, n=1)
    return f" did you mean {lowered[found[0]]!r}?" if found else ""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def shorten(text: str, width: int = 60) -> str:
    """Return a text cut to a width, with an ellipsis where it was cut."""
    return text if len(text) <= width else text[: width - 1] + "…"


@contextmanager
def located(place: str) -> Iterator[None]:
    """Let an error say where it was."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
