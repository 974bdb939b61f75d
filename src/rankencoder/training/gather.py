"""Batches of several processes, seen as one."""

from __future__ import annotations

import torch
from torch import distributed


def world_size() -> int:
    """Return how many processes train together."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def gather(rows: torch.Tensor) -> torch.Tensor:
    """Return the rows of all processes, in their order, on each of them; gradients flow back to their own.

    Each process then computes the same loss of the whole batch. Backward adds up the gradients of all these
    equal losses, and DistributedDataParallel takes the mean: the gradient of the one loss comes out.
    """
    if world_size() == 1:
        return rows
    from torch.distributed.nn.functional import all_gather

    return torch.cat(all_gather(rows.contiguous()))


def total(value: torch.Tensor) -> torch.Tensor:
    """Return the sum of a number over all processes, without a gradient."""
    value = value.detach().clone()
    if world_size() > 1:
        distributed.all_reduce(value)
    return value


def average_gradients(parameters: list[torch.nn.Parameter]) -> None:
    """Average the gradients of parameters that DistributedDataParallel does not know: those of the loss."""
    if world_size() == 1:
        return
    for parameter in parameters:
        if parameter.grad is not None:
            distributed.all_reduce(parameter.grad)
            parameter.grad /= world_size()
