"""Capture training steps as CUDA graphs to avoid launching each kernel."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from subprocess import SubprocessError
from typing import Any

import torch
from torch import nn

from rankencoder.errors import TrainingWarning, first_line

_MOST = 4  # shapes; each graph has memory of its own


class GraphedStep:
    """Replays a loss' forward and backward pass; batches of each shape have a graph of their own.

    Steps that cannot be captured, and batches of rare shapes, are left to the caller.

    :param loss: A loss whose ``logged`` holds its parts after each step. Its autocast must not cache.
    :param compiled: Capture compiled layers. Where they cannot be compiled, they are captured as they are.
    """

    def __init__(self, loss: Any, *, compiled: bool = False) -> None:
        self.loss = loss
        self.compiled = compiled
        self.graphs: dict[tuple[Any, ...], Any] = {}
        self.works = True

    def fits(self, features: dict[str, torch.Tensor]) -> bool:
        """Say whether there is a graph for a batch; if there can be one, it is captured."""
        shape = _shape(features)
        if shape not in self.graphs and self.works and len(self.graphs) < _MOST:
            self._capture(shape, features)
        return shape in self.graphs

    def __call__(self, features: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return loss and parts of a batch that fits."""
        loss, parts = self.graphs[_shape(features)](*features.values())
        return loss, parts

    def _capture(self, shape: tuple[Any, ...], features: dict[str, torch.Tensor]) -> None:
        step = _Step(self.loss, list(features))
        sample = tuple(value.clone() for value in features.values())
        try:
            with compiled_layers(self.loss.model) if self.compiled else nullcontext():
                self.graphs[shape] = torch.cuda.make_graphed_callables(step, sample, allow_unused_input=True)
            return
        except (RuntimeError, OSError, SubprocessError) as error:  # the last two of compilers
            what = "layers are not compiled" if self.compiled else "steps are not replayed as CUDA graphs"
            warnings.warn(f"{what}, which is slower: {first_line(error)}", TrainingWarning, stacklevel=2)
        if self.compiled:  # out here: the error holds the memory of the step that failed
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
    """Put compiled layers in the place of a model's repeated ones; one compilation serves them all."""
    stacks = [stack for stack in model.modules() if isinstance(stack, nn.ModuleList)]
    own = {layer: vars(layer).get("forward") for stack in stacks for layer in stack}
    try:
        for layer in own:  # its forward alone: hooks read what it returns, in the open
            layer.forward = torch.compile(layer.forward, dynamic=False)
        yield
    finally:
        for layer, forward in own.items():
            vars(layer).pop("forward", None)
            if forward is not None:
                layer.forward = forward


def logged_parts(loss: Any) -> torch.Tensor:
    """Return what a loss has to log of its last batch, as one tensor."""
    return torch.stack([value.float() for value in loss.logged.values()])


def _shape(features: dict[str, torch.Tensor]) -> tuple[Any, ...]:
    return tuple((name, value.shape) for name, value in features.items())
