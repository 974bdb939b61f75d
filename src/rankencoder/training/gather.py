"""Gather the batches of several processes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, cast

import torch
from torch import distributed

WAIT = timedelta(days=1)  # timeout of collectives, while the first process prepares data


def is_first_process() -> bool:
    """Return whether this is rank 0. Works before the process group exists."""
    return os.environ.get("RANK", "0") == "0"


def world_size() -> int:
    """Return the number of processes."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def gather(rows: torch.Tensor) -> torch.Tensor:
    """Return the rows of all processes, in order, on each of them; gradients flow back to their owner.

    Each process computes the same loss on the full batch. Backward sums the gradients of these equal losses
    and DistributedDataParallel averages them, which gives the gradient of one loss.
    """
    return cast(torch.Tensor, _Gather.apply(rows)) if world_size() > 1 else rows  # type: ignore[no-untyped-call]


def own_rows(gathered: torch.Tensor, dim: int = 0) -> torch.Tensor:
    """Return this process' part of gathered rows."""
    processes = world_size()
    return gathered.chunk(processes, dim=dim)[distributed.get_rank()] if processes > 1 else gathered


class _Gather(torch.autograd.Function):
    """Gathers rows; backward sums the gradients of all processes.

    That of torch.distributed.nn is wrong for non-contiguous gradients on gloo (torch 2.13).
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
    """Average the gradients of the loss' parameters, which DistributedDataParallel does not know."""
    if world_size() == 1:
        return
    for parameter in parameters:
        if parameter.grad is not None:
            distributed.all_reduce(parameter.grad)
            parameter.grad /= world_size()
