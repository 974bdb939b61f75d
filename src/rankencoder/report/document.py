"""The contents of a report as plain data: sections of tiles, tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np

from rankencoder.formatting import NOTHING, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Tile:
    """One line of the answer: what it is about, the answer, and how sure it is."""

    title: str
    value: str
    detail: str


@dataclass(frozen=True)
class NextStep:
    """The next step, worded by ``next_step.jinja``: evaluate, tune, label or threshold."""

    kind: str
    model: str = ""
    files: tuple[str, ...] = ()
    name: str = ""
    is_folder: bool = False  # only a folder can store a threshold


@dataclass(frozen=True)
class Tiles:
    """The answer, and what to do next."""

    tiles: list[Tile]
    next_step: NextStep
    kind: ClassVar[str] = "tiles"


@dataclass(frozen=True)
class Cell:
    """A table cell, with small print beside it, and whether it stands out."""

    text: str
    small: str = ""
    best: bool = False


@dataclass(frozen=True)
class Group:
    """Rows that belong together."""

    title: str
    rows: list[tuple[str, list[Cell]]]


@dataclass(frozen=True)
class Table:
    """A table with named rows; the first `words` columns, or all (-1), hold words."""

    caption: str
    head: list[str]
    groups: list[Group]
    notes: list[str] = field(default_factory=list)
    words: int = 1
    is_sortable: bool = False
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Figure:
    """A plot, and its description in words."""

    ident: str
    title: str
    caption: str
    draw: Callable[[Axes], None]
    height: int = 320
    width: ClassVar[int] = 540
    kind: ClassVar[str] = "figure"


Block: TypeAlias = "Tiles | Table | Figure"


@dataclass(frozen=True)
class Section:
    """A section; the first is open, the others are folded."""

    ident: str
    title: str
    lead: str
    blocks: Sequence[Block] = ()


def spread_cell(values: Sequence[float | None], digits: int = 2, *, best: bool = False) -> Cell:
    """Return a value, or the mean and standard deviation of several runs."""
    real = [value for value in values if value is not None]
    if not real:
        return Cell(NOTHING)
    spread = f"± {number(float(np.std(real, ddof=1)), digits)}" if len(real) > 1 else ""
    return Cell(number(float(np.mean(real)), digits), spread, best)
