"""A web page that shows what rank vectors do: compare sentences, look at maps, search."""

from __future__ import annotations

from rankencoder.explorer.launch import explore

__all__ = ["explore"]
