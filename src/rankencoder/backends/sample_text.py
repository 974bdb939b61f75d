"""Sentences that every Python brings along, on which backends are compared."""

from __future__ import annotations

import re


def sample_sentences(number: int = 1000) -> list[str]:
    """Return different sentences of Python's own manual, of 5 to 30 words, evenly spread over it."""
    from pydoc_data.topics import topics

    text = re.sub(r"[*`_|^=+-]{2,}|\s+", " ", " ".join(topics[name] for name in sorted(topics)))
    found = dict.fromkeys(part for part in re.split(r"(?<=[.:;]) ", text) if 4 <= part.count(" ") < 30)
    spread = list(found)
    return spread[:: max(1, len(spread) // number)][:number]
