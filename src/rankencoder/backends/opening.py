"""The keyword arguments for opening an encoder, passed on to `rankencoder.encoders.Encoder`."""

from __future__ import annotations

from typing import TypedDict


class Running(TypedDict, total=False):
    """How to run an encoder."""

    device: str | None
    batch_size: int
    backend: str


class Opening(Running, total=False):
    """How to run an encoder, and in which precision."""

    precision: str | None


OPENING = Opening.__annotations__.keys()
