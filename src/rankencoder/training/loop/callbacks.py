"""What happens between the steps of a training: a progress bar, and stopping well."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState


class Progress(TrainerCallback):
    """A progress bar with the latest losses."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.bar: Any = None

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        from tqdm.auto import tqdm

        if state.is_world_process_zero:
            self.bar = tqdm(total=state.max_steps, initial=state.global_step, desc=self.title, unit=" steps")

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if self.bar is not None:
            self.bar.update(state.global_step - self.bar.n)

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        shown, logs = ("loss", "contrastive", "rank"), kwargs["logs"]
        if self.bar is not None and "loss" in logs:
            self.bar.set_postfix({name: f"{logs[name]:.4g}" for name in shown if name in logs}, refresh=False)

    def on_train_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if self.bar is not None:
            self.bar.close()


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
