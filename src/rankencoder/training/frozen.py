"""Second models that a loss looks at and does not train."""

from __future__ import annotations

from typing import Any

from torch import nn


class Frozen(nn.Module):
    """A model that stays in evaluation mode, whoever calls `train`, and has no gradients."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model.eval().requires_grad_(False)

    def train(self, mode: bool = True) -> Frozen:
        """Stay as it is."""
        return self

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the model returns."""
        return self.model(*args, **kwargs)
