"""Replay training steps as CUDA graphs, which saves launching each kernel."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn

from rankencoder.errors import TrainingWarning, first_line

_MOST = 4  # graphs; each takes memory
_OFTEN = 6  # batches of a shape before it has a graph; most others never come again
_WARM = 3  # runs before a capture, in which libraries allocate what they keep
Features = dict[str, torch.Tensor]


class GraphedStep:
    """Replays a loss' forward and backward pass, with one graph for each shape of a batch.

    Rare shapes, and steps that cannot be captured, are left to the caller.

    :param loss: A loss whose ``logged`` holds its parts after each step. Autocast must not cache.
    :param backward: A function that computes the gradients of a loss.
    :param compiled: Capture compiled layers; falls back to the layers as they are.
    """

    def __init__(
        self, loss: Any, backward: Callable[[torch.Tensor], None], *, compiled: bool = False
    ) -> None:
        self.loss, self.backward = loss, backward
        self.compiled = compiled
        self.graphs: dict[tuple[Any, ...], _CapturedStep] = {}
        self.seen: Counter[tuple[Any, ...]] = Counter()
        self.pool: list[Any] = []  # memory of the first graph, which the others share
        self.works = True

    def fits(self, features: Features) -> bool:
        """Return whether a batch has a graph, which is captured if possible once its shape has come often."""
        shape = _shape(features)
        self.seen[shape] += 1
        if self.seen[shape] == _OFTEN and self.works and len(self.graphs) < _MOST:
            self._capture(shape, features)
        return shape in self.graphs

    def __call__(self, features: Features) -> tuple[torch.Tensor, torch.Tensor]:
        """Set the gradients of a batch that fits, and return its loss and the parts, until the next step."""
        return self.graphs[_shape(features)](features)

    def _capture(self, shape: tuple[Any, ...], features: Features) -> None:
        try:
            with compiled_layers(self.loss.model) if self.compiled else nullcontext():
                self.graphs[shape] = _CapturedStep(self.loss, self.backward, features, self.pool)
            return
        except Exception as error:  # CUDA, compilers and Triton each raise their own
            self.loss.zero_grad()  # of runs before the capture, and memory of the graph
            what = "layers are not compiled" if self.compiled else "steps are not replayed as CUDA graphs"
            warnings.warn(f"{what}, which is slower: {first_line(error)}", TrainingWarning, stacklevel=2)
        if self.compiled:  # outside the handler: the error keeps the failed step's memory
            self.compiled = False
            self._capture(shape, features)
        else:
            self.works = False


class _CapturedStep:
    """A step on tensors that stay in their places."""

    def __init__(
        self, loss: Any, backward: Callable[[torch.Tensor], None], features: Features, pool: list[Any]
    ) -> None:
        self.module, self.backward = loss, backward
        self.inputs = {name: value.clone() for name, value in features.items()}
        self.parameters = [parameter for parameter in loss.parameters() if parameter.requires_grad]
        self.replay = capture(self._run, pool)

    def _run(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None
        loss = self.module([dict(self.inputs)])
        self.parts = logged_parts(self.module)
        self.backward(loss)
        self.loss = loss.detach()
        self.gradients = [parameter.grad for parameter in self.parameters]

    def __call__(self, features: Features) -> tuple[torch.Tensor, torch.Tensor]:
        for name, value in features.items():
            self.inputs[name].copy_(value, non_blocking=True)
        self.replay()
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient
        return self.loss, self.parts


def capture(run: Callable[[], None], pool: list[Any]) -> Callable[[], None]:
    """Capture what a function does on the GPU, and return a function that does it again.

    :param pool: The pool of memory that captures share, if there has been one. What one of them leaves is
        only valid until another is replayed.
    """
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(_WARM):
            run()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, *pool):
        run()
    pool[:] = [graph.pool()]
    return graph.replay


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


def _shape(features: Features) -> tuple[Any, ...]:
    return tuple((name, value.shape) for name, value in features.items())
