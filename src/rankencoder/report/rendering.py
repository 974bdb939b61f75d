"""The report's two formats: a self-contained HTML page, or GitHub-flavored Markdown.

Plots are matplotlib's SVG with the page's own font and colors, light or dark.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from html import escape as escape_html
from pathlib import Path

from rankencoder._version import __version__
from rankencoder.errors import MissingExtraError
from rankencoder.formatting import clean
from rankencoder.report.document import Figure, Section

COLORS = {  # the page's colors in light mode; in the page each is a variable, var(--ink) and so on
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
    (r"(?s)<style.*?</style>", ""),  # it would apply to the whole page
    (r'<g id="[^"]*"', "<g"),  # ids are the same in every plot, and never linked to
    (r"xlink:href", "href"),
    (r" font-family: [^;\"]+;?", ""),
    (r"\s*\n\s*", " "),
)
_TEMPLATES = {"html": "page.html.jinja", "md": "report.md.jinja"}
_COMMAND = re.compile("`((?:rankencoder|--)[^`]*)`")
_GLUE = "\N{WORD JOINER}"


def render(sections: Sequence[Section], title: str, format: str) -> str:
    """Fill the template of a format."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup, escape
    except ImportError as error:
        raise MissingExtraError("a report needs jinja2", "report") from error
    environment = Environment(
        loader=PackageLoader("rankencoder", "report"),
        autoescape=format == "html",
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["svg"] = lambda figure: Markup(to_svg(figure))  # escapes the text within itself
    environment.filters["commands"] = lambda text: Markup(_COMMAND.sub(r"<code>\1</code>", str(escape(text))))
    environment.filters["md"] = escape_markdown
    template = environment.get_template(_TEMPLATES[format])
    text = template.render(sections=sections, title=clean(title), version=__version__)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def to_svg(figure: Figure) -> str:
    """Draw a figure as an SVG element, whose ids are unique in the page if the figure's is."""
    try:
        import matplotlib.style
        from matplotlib.figure import Figure as Canvas  # draws without a window or pyplot
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
        f'aria-label="{escape_html(figure.caption)}" viewBox="0 0 {figure.width} {figure.height}">'
        f"{body}</svg>"
    )


def is_report(path: Path) -> bool:
    """Whether a file is one of our reports."""
    with path.open("rb") as file:
        head = file.read(1000).decode("utf-8", "replace")
    return '<meta name="generator" content="rankencoder ' in head or head.startswith("<!-- rankencoder ")


def escape_markdown(text: object) -> str:
    r"""Escape Markdown, including GitHub's mentions and issue links.

    >>> escape_markdown("a|b <script> *x* [y](z)")
    'a\\|b &lt;script&gt; \\*x\\* \\[y\\](z)'
    """
    plain = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    plain = re.sub(r"([\\`*_\[\]|~$])", r"\\\1", plain)
    plain = re.sub(r"([@#])(?=\w)", rf"\1{_GLUE}", plain)
    plain = re.sub(r"(?i)\b(https?:|www\.)", rf"\1{_GLUE}", plain)
    plain = re.sub(r"^(#+|[-+=]|\d+[.)])(?=\s|$)", r"\\\1", plain)
    return re.sub(r"\\`((?:rankencoder|--)[^`\\]*)\\`", r"`\1`", plain)  # commands stay commands
