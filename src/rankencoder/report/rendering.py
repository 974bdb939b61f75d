"""The report's two formats: one page of HTML that needs nothing else, or GitHub-flavoured Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from rankencoder._version import __version__
from rankencoder.errors import MissingExtraError
from rankencoder.formatting import clean
from rankencoder.report.document import Section
from rankencoder.report.svg_plots import to_svg

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


def is_report(path: Path) -> bool:
    """Say whether a file is a report that we wrote."""
    with path.open("rb") as file:
        head = file.read(1000).decode("utf-8", "replace")
    return '<meta name="generator" content="rankencoder ' in head or head.startswith("<!-- rankencoder ")


def escape_markdown(text: object) -> str:
    r"""Return text that Markdown shows as it is, and in which GitHub sees nobody's name and no issue.

    >>> escape_markdown("a|b <script> *x* [y](z)")
    'a\\|b &lt;script&gt; \\*x\\* \\[y\\](z)'
    """
    plain = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    plain = re.sub(r"([\\`*_\[\]|~$])", r"\\\1", plain)
    plain = re.sub(r"([@#])(?=\w)", rf"\1{_GLUE}", plain)
    plain = re.sub(r"(?i)\b(https?:|www\.)", rf"\1{_GLUE}", plain)
    plain = re.sub(r"^(#+|[-+=]|\d+[.)])(?=\s|$)", r"\\\1", plain)
    return re.sub(r"\\`((?:rankencoder|--)[^`\\]*)\\`", r"`\1`", plain)  # commands stay commands
