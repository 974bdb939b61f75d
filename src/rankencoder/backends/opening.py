"""How encoders are opened: what everything that opens one passes on to `rankencoder.encoders.Encoder`."""

from __future__ import annotations

from typing import TypedDict


class Running(TypedDict, total=False):
    """How an encoder runs."""

    device: str | None
    batch_size: int
    backend: str


class Opening(Running, total=False):
    """How an encoder runs, and in which precision."""

    precision: str | None


OPENING = Opening.__annotations__.keys()
"""Their names."""
