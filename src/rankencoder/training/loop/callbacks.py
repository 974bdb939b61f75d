"""Trainer callbacks: a progress bar and a clean stop on signals."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState

from rankencoder.progress import Progress


class ShowProgress(TrainerCallback):
    """Progress bar of the steps, with the latest loss."""

    def __init__(self, title: str) -> None:
        self.title = title

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **_: Any) -> None:
        faster, done = "fewer steps (`max_steps`)", state.global_step
        self.bar = Progress(state.max_steps, desc=self.title, unit="steps", faster=faster, initial=done)

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **_: Any) -> None:
        self.bar.update()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if "loss" in logs:
            self.bar.update(0, loss=logs["loss"])

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self.bar.__exit__()


class StopAtSignal(TrainerCallback):
    """On SIGINT or SIGTERM, finish the step, write a checkpoint and stop; a second Ctrl-C stops at once.

    :param enabled: Off for several processes, which would stop at different steps.
    """

    def __init__(self, *, enabled: bool = True) -> None:
        self.enabled = enabled
        self.stopped = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopAtSignal:
        if self.enabled and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.stopped = True
        self.__exit__()

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if self.stopped and state.global_step < state.max_steps:
            control.should_save = True
            control.should_training_stop = True
