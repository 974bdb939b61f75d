"""Replay training steps as CUDA graphs, which saves launching each kernel."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from subprocess import SubprocessError
from typing import Any

import torch
from torch import nn

from rankencoder.errors import TrainingWarning, first_line

_MOST = 4  # graphs; each takes memory


class GraphedStep:
    """Replays a loss' forward and backward pass, with one graph for each shape of a batch.

    Rare shapes, and steps that cannot be captured, are left to the caller.

    :param loss: A loss whose ``logged`` holds its parts after each step. Autocast must not cache.
    :param compiled: Capture compiled layers; falls back to the layers as they are.
    """

    def __init__(self, loss: Any, *, compiled: bool = False) -> None:
        self.loss = loss
        self.compiled = compiled
        self.graphs: dict[tuple[Any, ...], Any] = {}
        self.works = True

    def fits(self, features: dict[str, torch.Tensor]) -> bool:
        """Return whether a batch has a graph, which is captured if possible."""
        shape = _shape(features)
        if shape not in self.graphs and self.works and len(self.graphs) < _MOST:
            self._capture(shape, features)
        return shape in self.graphs

    def __call__(self, features: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss of a batch that fits, and its parts."""
        loss, parts = self.graphs[_shape(features)](*features.values())
        return loss, parts

    def _capture(self, shape: tuple[Any, ...], features: dict[str, torch.Tensor]) -> None:
        step = _Step(self.loss, list(features))
        sample = tuple(value.clone() for value in features.values())
        try:
            with compiled_layers(self.loss.model) if self.compiled else nullcontext():
                self.graphs[shape] = torch.cuda.make_graphed_callables(step, sample, allow_unused_input=True)
            return
        except (RuntimeError, OSError, SubprocessError) as error:  # compilers raise the last two
            what = "layers are not compiled" if self.compiled else "steps are not replayed as CUDA graphs"
            warnings.warn(f"{what}, which is slower: {first_line(error)}", TrainingWarning, stacklevel=2)
        if self.compiled:  # outside the handler: the error keeps the failed step's memory
            self.compiled = False
            self._capture(shape, features)
        else:
            self.works = False


class _Step(nn.Module):
    """A loss as a function of tensors."""

    def __init__(self, loss: Any, names: list[str]) -> None:
        super().__init__()
        self.loss: Any = loss
        self.names = names

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        loss: torch.Tensor = self.loss([dict(zip(self.names, tensors, strict=True))])
        return loss, logged_parts(self.loss)


@contextmanager
def compiled_layers(model: nn.Module) -> Iterator[None]:
    """Replace a model's repeated layers by compiled ones, which share one compilation."""
    stacks = [stack for stack in model.modules() if isinstance(stack, nn.ModuleList)]
    own = {layer: vars(layer).get("forward") for stack in stacks for layer in stack}
    try:
        for layer in own:  # only its forward, so that hooks stay outside
            layer.forward = torch.compile(layer.forward, dynamic=False)
        yield
    finally:
        for layer, forward in own.items():
            vars(layer).pop("forward", None)
            if forward is not None:
                layer.forward = forward


def logged_parts(loss: Any) -> torch.Tensor:
    """Return the logged parts of a loss as one tensor."""
    return torch.stack([value.float() for value in loss.logged.values()])


def _shape(features: dict[str, torch.Tensor]) -> tuple[Any, ...]:
    return tuple((name, value.shape) for name, value in features.items())
