"""A page on which a person sees what rank vectors do: compare sentences, look at maps, search."""

from __future__ import annotations

from rankencoder.explorer.launch import explore

__all__ = ["explore"]
