"""What happens between the steps of a training: a progress bar, and stopping well."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from transformers import ProgressCallback, TrainerCallback, TrainerControl, TrainerState


class Progress(ProgressCallback):
    """A progress bar with a title and the latest loss."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.title = title

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if self.training_bar is not None and "loss" in logs:
            self.training_bar.set_description(self.title, refresh=False)
            self.training_bar.set_postfix(loss=f"{logs['loss']:.4g}", refresh=False)


class StopAtSignal(TrainerCallback):
    """At Ctrl-C, or when told to terminate: finishes the step, writes a checkpoint and stops.

    A second Ctrl-C ends the training at once.

    :param enabled: Not for several processes, which would not all stop at the same step.
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
