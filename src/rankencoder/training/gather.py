"""Batches of several processes, seen as one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, cast

import torch
from torch import distributed

WAIT = timedelta(days=1)  # for each other: the first process may prepare data for long


def is_first_process() -> bool:
    """Return whether this is rank 0. Works before the process group exists."""
    return os.environ.get("RANK", "0") == "0"


def world_size() -> int:
    """Return how many processes train together."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def gather(rows: torch.Tensor) -> torch.Tensor:
    """Return the rows of all processes, in their order, on each of them; gradients flow back to their own.

    Each process then computes the same loss of the whole batch. Backward adds up the gradients of all these
    equal losses, and DistributedDataParallel takes the mean: the gradient of the one loss comes out.
    """
    return cast(torch.Tensor, _Gather.apply(rows)) if world_size() > 1 else rows  # type: ignore[no-untyped-call]


def own_rows(gathered: torch.Tensor, dim: int = 0) -> torch.Tensor:
    """Return what `gather` got from this process."""
    processes = world_size()
    return gathered.chunk(processes, dim=dim)[distributed.get_rank()] if processes > 1 else gathered


class _Gather(torch.autograd.Function):
    """Gathers rows; its backward adds up the gradients that the processes have for them.

    That of torch.distributed.nn goes wrong on gloo, for gradients that are not contiguous (torch 2.13).
    """

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor) -> torch.Tensor:
        ctx.rows = len(rows)
        gathered = [
            torch.empty_like(rows, memory_format=torch.contiguous_format) for _ in range(world_size())
        ]
        distributed.all_gather(gathered, rows.contiguous())
        return torch.cat(gathered)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        gradient = gradient.contiguous()
        distributed.all_reduce(gradient)
        start = ctx.rows * distributed.get_rank()
        return gradient[start : start + ctx.rows]


def average_gradients(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Average the gradients of parameters that DistributedDataParallel does not know: those of the loss."""
    if world_size() == 1:
        return
    for parameter in parameters:
        if parameter.grad is not None:
            distributed.all_reduce(parameter.grad)
            parameter.grad /= world_size()
