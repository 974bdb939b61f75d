"""Where things that can be made or fetched again are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root(*parts: str) -> Path:
    """Return the cache folder of this package, or a folder in it.

    It is ``$RANKENCODER_CACHE``, otherwise ``$XDG_CACHE_HOME/rankencoder``, otherwise
    ``~/.cache/rankencoder``.

    :param parts: A sub-folder, such as ``"vectors"``.
    """
    if given := os.environ.get("RANKENCODER_CACHE"):
        return Path(given, *parts)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "rankencoder", *parts)
