"""What goes wrong because of the input, told so that a person can mend it."""

from __future__ import annotations


class InputError(ValueError):
    """Wrong input from outside (text, vectors, folders, options): says what, where, and what to do.

    The command line prints its message as one line and exits with code 2.
    """


class ReferenceWarning(UserWarning):
    """The reference corpus is usable, but smaller than rank vectors like."""


class TrainingWarning(UserWarning):
    """The training data is usable, but not what a method was made for."""
