"""Templates, styles and scripts of the page. Templates escape user input and corpus text."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from rankencoder.formatting import clean, number, plural

_LOWEST = -0.25  # the left end of a bar

EVENT: dict[str, Any] = {
    "queue": False,
    "show_progress": "hidden",
    "trigger_mode": "always_last",  # the answer to the last input is shown last
    "api_visibility": "private",
}
"""Options of every event of the page."""


def render(template: str, **values: Any) -> str:
    """Render a template of this folder, with all values escaped."""
    return str(_environment().get_template(f"{template}.html.jinja").render(**values))


def sentence(error: object) -> str:
    """Format an error as a sentence."""
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."


def read(name: str) -> str:
    """Read a style sheet or script of this folder."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("rankencoder", "explorer"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(clean=clean, number=number, bar=bar)
    environment.globals.update(plural=plural, zero=bar(0.0)["from"])
    return environment


def bar(value: float) -> dict[str, str]:
    """Return the start and length of a bar, in percent of a track from −0.25 to 1.

    >>> bar(1.0), bar(-3.0)
    ({'from': '20.0', 'long': '80.0'}, {'from': '0.0', 'long': '20.0'})
    """
    low, high = sorted((0.0, min(1.0, max(_LOWEST, value))))
    scale = 100 / (1 - _LOWEST)
    return {"from": f"{(low - _LOWEST) * scale:.1f}", "long": f"{(high - low) * scale:.1f}"}
