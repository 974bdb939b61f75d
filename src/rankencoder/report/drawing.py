"""Drawings that stand in a page: matplotlib's SVG with the page's own font and colours, light or dark."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any, cast

from rankencoder.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    name: f"#fe01a{digit:x}"
    for digit, name in enumerate(("ink", "muted", "grid", "base", "ranks", "blend", "other", "surface"))
}
"""Colours that nobody would choose, in whose place the page puts its own: ``var(--ink)`` and so on."""

WIDTH = 440
"""Of a panel, in pixels: on a phone it keeps its letters legible."""

_STYLE: dict[str, Any] = {
    "svg.hashsalt": "rankencoder",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "axes.unicode_minus": True,
    "axes.formatter.useoffset": False,
    "font.size": 12.5,
    "text.color": COLOURS["ink"],
    "axes.labelcolor": COLOURS["muted"],
    "axes.labelsize": 12.5,
    "axes.edgecolor": COLOURS["grid"],
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": COLOURS["grid"],
    "grid.linewidth": 0.8,
    "xtick.color": COLOURS["grid"],
    "ytick.color": COLOURS["grid"],
    "xtick.labelcolor": COLOURS["muted"],
    "ytick.labelcolor": COLOURS["muted"],
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "lines.linewidth": 2.2,
    "lines.markersize": 5.5,
    "figure.facecolor": "none",
}


@contextmanager
def axes_of(height: int, *, width: int = WIDTH) -> Iterator[Axes]:
    """Give axes to draw on, in pixels of the panel.

    :raises InputError: If matplotlib is not installed.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure  # draws without a window, and knows nothing of pyplot
    except ImportError as error:
        raise InputError("a report needs matplotlib: pip install 'rankencoder[report]'") from error
    with matplotlib.rc_context(cast(Any, _STYLE)):
        figure = Figure(figsize=(width / 72, height / 72), dpi=72, layout="constrained")
        yield figure.add_subplot()


def to_svg(axes: Axes, ident: str, label: str) -> str:
    """Turn what was drawn into an SVG element of a page.

    :param ident: Unique in the page: it prefixes all ids within the drawing.
    :param label: What the drawing shows, for people who cannot see it.
    """
    figure: Figure = axes.get_figure()  # type: ignore[assignment]
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    width, height = (round(72 * inches) for inches in figure.get_size_inches())
    return _inline(file.getvalue(), ident, label, width, height)


def _inline(svg: str, ident: str, label: str, width: int, height: int) -> str:
    """Return the SVG element as a part of a page."""
    body = svg[svg.index("<defs>") : svg.rindex("</svg>")]
    body = re.sub(r"<style.*?</style>", "", body, flags=re.S)  # it would hold for the whole page
    body = body.replace("xlink:href", "href")
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', body))
    body = re.sub(r' id="([^"]+)"', lambda m: f' id="{ident}-{m[1]}"' if m[1] in used else "", body)
    body = re.sub(r'(href="|url\()#', rf"\g<1>#{ident}-", body)
    body = re.sub(r" font-family: [^;\"]+;?", "", body)
    body = re.sub(r' transform="rotate\(-0 [^"]*"', "", body)
    body = re.sub(r' (?:d|x|y|width|height|transform)="[^"]*"', _rounded, body)
    body = re.sub(r"\s*\n\s*", " ", body)
    for name, colour in COLOURS.items():
        body = body.replace(colour, f"var(--{name})")
    shown = f'class="plot" role="img" aria-label="{escape(label)}" viewBox="0 0 {width} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {shown}>{body}</svg>'


def shortened(text: str, length: int) -> str:
    """Return text that fits into a drawing.

    >>> shortened("a long name", 6)
    'a lon…'
    """
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _rounded(attribute: re.Match[str]) -> str:
    return re.sub(r"(\d\.\d\d)\d+", r"\1", attribute[0])
