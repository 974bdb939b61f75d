"""Plots that stand in a page: matplotlib's SVG with the page's own font and colors, light or dark."""

from __future__ import annotations

import io
import re
from html import escape
from pathlib import Path

from rankencoder.errors import MissingExtraError
from rankencoder.report.document import Figure

COLORS = {  # those of the page in light mode; in the page each is a variable, var(--ink) and so on
    "ink": "#16202a",
    "muted": "#51606f",
    "grid": "#dbe1e7",
    "base": "#0072b2",
    "ranks": "#d55e00",
    "blend": "#007a5a",
    "other": "#9a4a80",
    "surface": "#ffffff",
}
_STYLE = Path(__file__).with_name("plots.mplstyle")
_CHANGES = (
    (r"(?s)<style.*?</style>", ""),  # would hold for the whole page
    (r'<g id="[^"]*"', "<g"),  # the same in every plot, and never linked to
    (r"xlink:href", "href"),
    (r" font-family: [^;\"]+;?", ""),
    (r"\s*\n\s*", " "),
)


def to_svg(figure: Figure) -> str:
    """Draw a figure as an SVG element, whose ids are unique in the page if the figure's is."""
    try:
        import matplotlib.style
        from matplotlib.figure import Figure as Canvas  # draws without a window, and knows nothing of pyplot
    except ImportError as error:
        raise MissingExtraError("a report needs matplotlib", "report") from error
    file = io.StringIO()
    with matplotlib.style.context([_STYLE, {"svg.hashsalt": figure.ident}]):
        canvas = Canvas(figsize=(figure.width / 72, figure.height / 72), dpi=72, layout="constrained")
        figure.draw(canvas.add_subplot())
        canvas.savefig(file, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    body = file.getvalue()
    body = body[body.index("<defs>") : body.rindex("</svg>")]
    for pattern, new in _CHANGES:
        body = re.sub(pattern, new, body)
    for name, color in COLORS.items():
        body = body.replace(color, f"var(--{name})")
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" class="plot" role="img" '
        f'aria-label="{escape(figure.caption)}" viewBox="0 0 {figure.width} {figure.height}">{body}</svg>'
    )
