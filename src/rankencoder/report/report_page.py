"""The report as one page of HTML that needs nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from rankencoder._version import __version__
from rankencoder.errors import InputError
from rankencoder.report.document import Section
from rankencoder.report.formatting import clean, number

GENERATOR = "rankencoder report"
"""By this a page is known to be ours, and may be replaced."""

_TEMPLATE = "page.html.jinja"
_COMMAND = re.compile("`((?:rankencoder|--)[^`]*)`")
_ROWS = 200  # that are shown of a figure's data; the file holds all


def to_html(sections: Sequence[Section], title: str) -> str:
    """Return the page.

    :raises InputError: If Jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup, escape
    except ImportError as error:
        raise InputError("a report needs jinja2: pip install 'rankencoder[report]'") from error
    environment = Environment(
        loader=PackageLoader("rankencoder", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["datum"] = _datum
    environment.filters["data_url"] = _data_url
    environment.filters["drawn"] = lambda panel: Markup(panel.draw())  # escapes the text within itself
    environment.filters["commands"] = lambda text: Markup(_COMMAND.sub(r"<code>\1</code>", str(escape(text))))
    page: str = environment.get_template(_TEMPLATE).render(
        sections=sections, title=clean(title), generator=f"{GENERATOR} {__version__}", rows=_ROWS
    )
    return page.lstrip()


def is_report(path: Path) -> bool:
    """Say whether a file is a report that we wrote."""
    with path.open("rb") as file:
        head = file.read(1000).decode("utf-8", "replace")
    return f'<meta name="generator" content="{GENERATOR} ' in head or head.startswith(f"<!-- {GENERATOR} ")


def _datum(value: object) -> str:
    """Print a number of a figure's data."""
    if isinstance(value, float):
        return number(value, 3)
    return "" if value is None else clean(value)


def _data_url(csv: str) -> str:
    return f"data:text/csv;charset=utf-8,{quote(csv)}"
