"""A report before it has a format: sections of text, tables, figures and pairs in words."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from rankencoder.report.formatting import NOTHING, clean, number

Value = float | int | str | None
"""What a table of data, for programs, can hold."""


@dataclass(frozen=True)
class Text:
    """A paragraph, with a list where there is more to tell than one thing.

    :param findings: Sentences, one for each thing.
    """

    text: str
    findings: list[str] = field(default_factory=list)
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Verdict:
    """What to use with one model, and why.

    :param about: What the model is, in short.
    :param paragraphs: The reasons.
    :param tone: "gain" where something beats plain cosine, "keep" where nothing does, "open" otherwise.
    """

    about: str
    headline: str
    paragraphs: list[str]
    tone: str
    kind: ClassVar[str] = "verdict"


@dataclass(frozen=True)
class Cell:
    """A place in a table.

    :param spread: A standard deviation, as text.
    :param best: Whether it is the best of its kind.
    """

    text: str
    spread: str = ""
    best: bool = False


@dataclass(frozen=True)
class Group:
    """Rows of a table that belong together.

    :param published: Whether they are from the paper rather than measured here.
    """

    title: str
    rows: list[tuple[str, list[Cell]]]
    published: bool = False


@dataclass(frozen=True)
class Table:
    """A table with named rows.

    :param folded: Whether it is shown only on demand.
    :param words: Whether its cells are words rather than numbers.
    """

    caption: str
    head: list[str]
    groups: list[Group]
    notes: list[str] = field(default_factory=list)
    folded: bool = False
    words: bool = False
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Panel:
    """One drawing.

    :param draw: Makes it, as SVG that can stand in a page.
    :param width: At which its letters have their size.
    """

    title: str
    draw: Callable[[], str]
    width: int


@dataclass(frozen=True)
class Key:
    """What a colour stands for.

    :param colour: A name of `rankencoder.report.drawing.COLOURS`.
    :param mark: "line", "dashes", "dot", "square" or "area".
    """

    text: str
    colour: str
    mark: str


@dataclass(frozen=True)
class Figure:
    """Some drawings, what they tell in words, and their data.

    :param finding: What is to be seen, for people who cannot see it too.
    :param findings: The same, a sentence for each encoder.
    """

    ident: str
    title: str
    finding: str
    keys: list[Key]
    panels: list[Panel]
    head: list[str]
    data: list[list[Value]]
    findings: list[str] = field(default_factory=list)
    kind: ClassVar[str] = "figure"

    @property
    def csv(self) -> str:
        """The data as a file."""
        return to_csv(self.head, self.data)


@dataclass(frozen=True)
class ChangedPair:
    """Two sentences whose similarity changed.

    :param places: The pair's place among all pairs by gold score and by both similarities, in per cent.
    """

    a: str
    b: str
    gold: str
    base: str
    other: str
    places: tuple[str, str, str]


@dataclass(frozen=True)
class Words:
    """Pairs in words: those that improved, or those that worsened."""

    caption: str
    base: str
    other: str
    pairs: list[ChangedPair]
    folded: bool = False
    kind: ClassVar[str] = "words"


Block = Text | Verdict | Table | Figure | Words


@dataclass(frozen=True)
class Section:
    """A part of the report.

    :param lead: What is to be seen here, in a sentence or two.
    :param findings: What was found, a sentence for each encoder.
    :param missing: Whether there was nothing to show; the lead then says what to run.
    """

    ident: str
    heading: str
    lead: str
    blocks: list[Block] = field(default_factory=list)
    missing: bool = False
    findings: list[str] = field(default_factory=list)


def spread_cell(values: Sequence[float | None], digits: int = 2, *, best: bool = False) -> Cell:
    """Return a value, or the mean and standard deviation of several runs."""
    real = [value for value in values if value is not None]
    if not real:
        return Cell(NOTHING)
    spread = number(float(np.std(real, ddof=1)), digits) if len(real) > 1 else ""
    return Cell(number(float(np.mean(real)), digits), spread, best)


def to_csv(head: Sequence[str], rows: Iterable[Sequence[Value]]) -> str:
    r"""Write data for spreadsheets; text that one would take for a formula gets an apostrophe.

    >>> to_csv(["x"], [["=cmd()"], [-1.5], [None]])
    "x\r\n'=cmd()\r\n-1.5\r\n\r\n"
    """
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([_harmless(cell) for cell in head])
    for row in rows:
        # an empty row of one empty cell would be written as two quotes
        writer.writerow([_harmless(cell) for cell in row] if list(row) != [None] else [])
    return out.getvalue()


def _harmless(cell: Value) -> Value:
    if not isinstance(cell, str):
        return cell
    text = clean(cell)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
