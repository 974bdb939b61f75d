"""Where things that can be made or fetched again are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root(*parts: str) -> Path:
    """Return ``$RANKENCODER_CACHE``, ``$XDG_CACHE_HOME/rankencoder`` or its default, or a folder in it."""
    if given := os.environ.get("RANKENCODER_CACHE"):
        return Path(given, *parts)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "rankencoder", *parts)
