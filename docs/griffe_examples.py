"""griffe extension: fence the examples and ``::`` blocks of docstrings, as Markdown needs."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_EXAMPLE = re.compile(r"(?:^|\n\n)(>>> .*?)(?=\n\n(?!>>> )|\Z)", re.DOTALL)
_LITERAL = re.compile(r"::\n\n((?:    .*(?:\n|\Z)|\n)+)")


class Examples(Extension):
    """Fence the examples of all docstrings."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Fence the examples of one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Return a docstring with fenced examples."""
    text = _LITERAL.sub(lambda found: f":\n\n```\n{_dedent(found[1])}\n```\n", text)
    return _EXAMPLE.sub(lambda found: f"\n\n```pycon\n{found[1]}\n```", text)


def _dedent(text: str) -> str:
    return "\n".join(line[4:] for line in text.strip("\n").splitlines())
