"""Tables made of raw results, put between the marks of a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev

MISSING = "Not measured."


def line(*cells: str) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, or that there is nothing to put into it."""
    lines = [line(*row) for row in rows]
    return "\n".join([line(*head), line(*["---"] * len(head)), *lines]) if lines else MISSING


def shown(numbers: Sequence[float], digits: int = 1) -> str:
    """Return mean ± standard deviation, or the one number; a dash where there is none.

    >>> shown([1.0, 2.0]), shown([1.0]), shown([])
    ('1.5 ± 0.7', '1.0', '–')
    """
    if not numbers:
        return "–"
    spread = f" ± {stdev(numbers):.{digits}f}" if len(numbers) > 1 else ""
    return f"{fmean(numbers):.{digits}f}{spread}"


def gain(numbers: Sequence[float], digits: int = 1) -> str:
    """Return a mean difference with its sign and, of several, the smallest and the largest.

    >>> gain([1.0, 2.0]), gain([-1.0])
    ('+1.5 (+1.0 to +2.0)', '-1.0')
    """
    if not numbers:
        return "–"
    ends = f" ({min(numbers):+.{digits}f} to {max(numbers):+.{digits}f})" if len(numbers) > 1 else ""
    return f"{fmean(numbers):+.{digits}f}{ends}"


def replaced(text: str, tables: Mapping[str, str]) -> str:
    """Return a page with its tables made anew."""
    for name, made in tables.items():
        before, begin, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("\n<!-- end -->")
        assert begin, f"no place for the table {name!r}"
        assert end, f"no end of the table {name!r}"
        text = f"{before}{begin}{made}{end}{after}"
    return text
