"""Second models that a loss looks at and does not train."""

from __future__ import annotations

from typing import Any

from torch import nn


class Frozen(nn.Module):
    """A model that stays in evaluation mode, whoever calls `train`, and has no gradients."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.frozen = model.eval().requires_grad_(False)  # as "model" sentence-transformers would replace it

    def train(self, mode: bool = True) -> Frozen:
        """Stay as it is."""
        return self

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the model returns."""
        return self.frozen(*args, **kwargs)
