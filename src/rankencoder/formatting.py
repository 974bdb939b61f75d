"""Format text and numbers for reports, the explorer and commands."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable

NOTHING = "–"


def clean(text: object) -> str:
    r"""Return text that is safe in any file: no control characters, no lone surrogates.

    >>> clean("a\x00b\ud800c\nd")
    'ab?c d'
    """
    joined = " ".join(str(text).split())
    kept = "".join(c for c in joined if unicodedata.category(c) != "Cc")
    return kept.encode("utf-8", "replace").decode("utf-8")


def number(value: float | None, digits: int = 2, *, signed: bool = False) -> str:
    """Format a number with a true minus sign.

    >>> number(-1.234), number(0.5, signed=True), number(None), number(-0.001)
    ('−1.23', '+0.50', '–', '0.00')
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    rounded = round(value, digits) + 0.0
    return f"{rounded:{'+' if signed and rounded else ''},.{digits}f}".replace("-", "−")


def points(gain: Iterable[float], digits: int = 2, *, scale: float = 1, signed: bool = True) -> str:
    """Format a gain with its interval.

    >>> points((0.0312, -0.002, 0.064), 1, scale=100)
    '+3.1 points (95% interval −0.2 to +6.4)'
    """
    value, low, high = (number(scale * part, digits, signed=signed) for part in gain)
    return f"{value} points (95% interval {low} to {high})"


def plural(count: int, one: str) -> str:
    """Format a number of things.

    >>> plural(1, "pair"), plural(2000, "pair")
    ('1 pair', '2,000 pairs')
    """
    return f"{count:,} {one}{'' if count == 1 else 's'}"


def listed(words: Iterable[str]) -> str:
    """Join words with commas and a final "and".

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
