"""The report as GitHub-flavoured Markdown, for papers and pull requests; without the pictures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from rankencoder._version import __version__
from rankencoder.report.document import Block, Cell, Figure, Section, Table, Text, Verdict, Words
from rankencoder.report.formatting import clean, number
from rankencoder.report.report_page import GENERATOR

_ROWS = 90  # of a figure's data that still make a readable table
_GLUE = "\N{WORD JOINER}"


def to_markdown(sections: Sequence[Section], title: str) -> str:
    """Return the text."""
    parts = [f"<!-- {GENERATOR} {__version__} -->", f"# {escape(title)}: do rank vectors help?"]
    for section in sections:
        parts += [f"## {escape(section.heading)}", _told(section.lead, section.findings)]
        for block in section.blocks:
            parts += _block(block)
    return "\n\n".join(part for part in parts if part) + "\n"


def escape(text: object) -> str:
    r"""Return text that Markdown shows as it is, and in which GitHub sees nobody's name and no issue.

    >>> escape("a|b <script> *x* [y](z)")
    'a\\|b &lt;script&gt; \\*x\\* \\[y\\](z)'
    """
    plain = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    plain = re.sub(r"([\\`*_\[\]|~$])", r"\\\1", plain)
    plain = re.sub(r"([@#])(?=\w)", rf"\1{_GLUE}", plain)
    plain = re.sub(r"(?i)\b(https?:|www\.)", rf"\1{_GLUE}", plain)
    plain = re.sub(r"^(#+|[-+=]|\d+[.)])(?=\s|$)", r"\\\1", plain)
    return re.sub(r"\\`((?:rankencoder|--)[^`\\]*)\\`", r"`\1`", plain)  # commands stay commands


def _told(text: str, findings: Sequence[str]) -> str:
    if len(findings) < 2:
        return " ".join(escape(part) for part in (text, *findings) if part)
    return "\n".join([escape(text), "", *(f"- {escape(finding)}" for finding in findings)])


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Text):
        yield _told(block.text, block.findings)
    elif isinstance(block, Verdict):
        yield f"**{escape(block.headline)}** ({escape(block.about)})"
        yield from map(escape, block.paragraphs)
    elif isinstance(block, Table):
        yield f"**{escape(block.caption)}**"
        yield _table(block.head, _rows(block))
        yield from map(escape, block.notes)
    elif isinstance(block, Figure):
        yield from _figure(block)
    else:
        yield from _words(block)


def _rows(table: Table) -> Iterator[list[str]]:
    for group in table.groups:
        if group.title:
            yield [f"**{escape(group.title)}**", *[""] * (len(table.head) - 1)]
        for name, cells in group.rows:
            yield [escape(name), *map(_cell, cells)]


def _cell(cell: Cell) -> str:
    text = escape(cell.text) + (f" ± {cell.spread}" if cell.spread else "")
    return f"**{text}**" if cell.best else text


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [[escape(name) for name in head], ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _figure(figure: Figure) -> Iterator[str]:
    yield f"**{escape(figure.title)}.** {_told(figure.finding, figure.findings)}"
    if len(figure.data) <= _ROWS:
        yield _table(figure.head, ([_value(value) for value in row] for row in figure.data))
    else:
        yield f"({len(figure.data):,} rows of data: see the HTML report.)"


def _value(value: object) -> str:
    if isinstance(value, float):
        return number(value, 3)
    return "" if value is None else escape(value)


def _words(block: Words) -> Iterator[str]:
    yield f"**{escape(block.caption)}**"
    head = ["pair", "people", block.base, block.other]
    rows = []
    for pair in block.pairs:
        figures = zip((pair.gold, pair.base, pair.other), pair.places, strict=True)
        told = [f"{value} ({place})" for value, place in figures]
        rows.append([f"{escape(pair.a)}<br>{escape(pair.b)}", *told])
    yield _table(head, rows)
