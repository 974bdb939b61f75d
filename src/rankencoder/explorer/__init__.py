"""A web page to compare sentences, look at maps, search and label."""

from __future__ import annotations

from rankencoder.explorer.launch import explore

__all__ = ["explore"]
