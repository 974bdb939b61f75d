"""Check every loss for NaN or inf without synchronising the GPU."""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

import torch
from datasets import Dataset

from rankencoder.errors import InputError, shorten

_BEHIND = 4  # steps


class _Seen(NamedTuple):
    loss: torch.Tensor
    rows: torch.Tensor
    step: int
    copied: torch.cuda.Event | None


class FiniteCheck:
    """Ends a training whose loss is NaN or infinite, and names the batch.

    On a GPU the loss is copied in the background and looked at some steps later.
    """

    def __init__(self, sentences: Dataset) -> None:
        self.sentences = sentences
        self.seen: deque[_Seen] = deque()

    def add(self, loss: torch.Tensor, rows: torch.Tensor, step: int) -> None:
        """Take in the loss of a step, and look at that of an earlier one."""
        copied = None
        loss = loss.detach()
        if loss.is_cuda:
            loss = loss.to("cpu", non_blocking=True)
            rows = rows.to("cpu", non_blocking=True)
            copied = torch.cuda.Event()
            copied.record()
        self.seen.append(_Seen(loss, rows, step, copied))
        while self.seen and (copied is None or len(self.seen) > _BEHIND):
            self._look(self.seen.popleft())

    def finish(self) -> None:
        """Look at all losses that have not been looked at."""
        while self.seen:
            self._look(self.seen.popleft())

    def _look(self, seen: _Seen) -> None:
        if seen.copied is not None:
            seen.copied.synchronize()
        value = float(seen.loss)
        if not math.isfinite(value):
            rows = seen.rows.tolist()
            text = shorten(self.sentences[rows[0]]["text"])
            raise InputError(
                f"the loss is {value} at step {seen.step}, on the batch of sentences "
                f"{', '.join(map(str, rows[:5]))}{', …' if len(rows) > 5 else ''} (the first: {text!r}): "
                "lower `learning_rate` or set `precision` to fp32, and `resume` from the last checkpoint"
            )
