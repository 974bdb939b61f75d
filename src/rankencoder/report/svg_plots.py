"""Plots that stand in a page: matplotlib's SVG with the page's own font and colours, light or dark."""

from __future__ import annotations

import io
import re
from html import escape
from typing import TYPE_CHECKING, Any, cast

from rankencoder.errors import InputError

if TYPE_CHECKING:
    from rankencoder.report.document import Panel

COLOURS = {
    name: f"#fe01a{digit:x}"
    for digit, name in enumerate(("ink", "muted", "grid", "base", "ranks", "blend", "other", "surface"))
}
"""Placeholder colours; the page puts its own in their place: ``var(--ink)`` and so on."""

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
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
    "xtick.labelcolor": COLOURS["muted"],
    "ytick.labelcolor": COLOURS["muted"],
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "lines.linewidth": 2.2,
    "lines.markersize": 5.5,
    "figure.facecolor": "none",
}


def to_svg(panel: Panel, ident: str) -> str:
    """Draw a panel as an SVG element of a page.

    :param ident: Unique in the page, as are the ids in the element then.
    :raises InputError: If matplotlib is not installed.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure  # draws without a window, and knows nothing of pyplot
    except ImportError as error:
        raise InputError("a report needs matplotlib: pip install 'rankencoder[report]'") from error
    file = io.StringIO()
    with matplotlib.rc_context(cast(Any, {**_STYLE, "svg.hashsalt": ident})):
        figure = Figure(figsize=(panel.width / 72, panel.height / 72), dpi=72, layout="constrained")
        panel.draw(figure.add_subplot())
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    body = file.getvalue()
    body = body[body.index("<defs>") : body.rindex("</svg>")]
    for pattern, new in _CHANGES:
        body = pattern.sub(new, body)
    for name, colour in COLOURS.items():
        body = body.replace(colour, f"var(--{name})")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" role="img" aria-label="{escape(panel.label)}" '
        f'viewBox="0 0 {panel.width} {panel.height}">{body}</svg>'
    )


_CHANGES = [
    (re.compile(pattern, re.S), new)
    for pattern, new in (
        (r"<style.*?</style>", ""),  # would hold for the whole page
        (r'<g id="[^"]*"', "<g"),  # the same in every plot, and never linked to
        (r"xlink:href", "href"),
        (r" font-family: [^;\"]+;?", ""),
        (r"\s*\n\s*", " "),
    )
]


def shortened(text: str, length: int) -> str:
    """Return text that fits into a plot.

    >>> shortened("a long name", 6)
    'a lon…'
    """
    return text if len(text) <= length else f"{text[: length - 1]}…"
