"""Double precision, wherever a tensor lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def in_double(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor as float64; on the CPU if its device knows none, as Apple's do."""
    return tensor.cpu().double() if tensor.device.type == "mps" else tensor.double()
