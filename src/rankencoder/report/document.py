"""What a report holds, as plain data: sections of verdicts, tables, figures and pairs of sentences."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rankencoder.report.formatting import NOTHING, clean, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Verdict:
    """What to use with one encoder, and why."""

    about: str
    headline: str
    paragraphs: list[str]
    tone: str = "open"  # "gain" where something beats plain cosine, "keep" where nothing does
    advice: str = ""  # what to run next: a name in section_texts.jinja
    kind: ClassVar[str] = "verdict"


@dataclass(frozen=True)
class Cell:
    """A cell of a table, with a standard deviation and whether it is the best of its column."""

    text: str
    spread: str = ""
    best: bool = False


@dataclass(frozen=True)
class Group:
    """Rows that belong together; `published` ones are from the paper."""

    title: str
    rows: list[tuple[str, list[Cell]]]
    published: bool = False


@dataclass(frozen=True)
class Table:
    """A table with named rows, of numbers or of words."""

    caption: str
    head: list[str]
    groups: list[Group]
    notes: list[str] = field(default_factory=list)
    words: bool = False
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Panel:
    """One plot of a figure."""

    title: str
    label: str  # what it shows, for people who cannot see it
    draw: Callable[[Axes], None]
    height: int = 300
    width: int = 440


@dataclass(frozen=True)
class MapPanel:
    """A map of sentences, drawn by the page itself so that each dot can show its sentence."""

    title: str
    label: str
    links: list[tuple[float, float, float, float]]  # the ends of lines: x, y, x, y
    dots: list[tuple[int, float, float, bool, str]]  # number, x, y, whether it is linked, the sentence
    width: int = 440


@dataclass(frozen=True)
class Figure:
    """Plots, what they show in words, and their data."""

    name: str  # in section_texts.jinja, which holds its title, legend and the columns of its data
    panels: Sequence[Panel | MapPanel]
    data: list[list[Any]]
    findings: list[str]
    ranks: str = "ranks"  # what to call the rank similarity
    of: str = ""  # the encoder, where each has a figure of its own
    kind: ClassVar[str] = "figure"


@dataclass(frozen=True)
class ChangedPairs:
    """Pairs of sentences, each with a score and a place by people and by both similarities."""

    caption: str
    similarities: list[str]
    pairs: list[tuple[str, str, list[tuple[str, str]]]]
    kind: ClassVar[str] = "pairs"


@dataclass(frozen=True)
class Section:
    """A section; without blocks, what it shows was not measured."""

    ident: str  # its name in section_texts.jinja, which holds its heading and lead
    blocks: Sequence[Verdict | Table | Figure | ChangedPairs] = ()


def spread_cell(values: Sequence[float | None], digits: int = 2, *, best: bool = False) -> Cell:
    """Return a value, or the mean and standard deviation of several runs."""
    real = [value for value in values if value is not None]
    if not real:
        return Cell(NOTHING)
    spread = number(float(np.std(real, ddof=1)), digits) if len(real) > 1 else ""
    return Cell(number(float(np.mean(real)), digits), spread, best)


def to_csv(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    r"""Write data for spreadsheets; text that one would take for a formula gets an apostrophe.

    >>> to_csv(["x", "y"], [["=cmd()", -1.5]])
    "x,y\r\n'=cmd(),-1.5\r\n"
    """
    out = io.StringIO()
    csv.writer(out).writerows([_harmless(cell) for cell in row] for row in (head, *rows))
    return out.getvalue()


def _harmless(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    text = clean(cell)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
