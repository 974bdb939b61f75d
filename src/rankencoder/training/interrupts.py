"""Ctrl-C where there are worker processes: seen by one process, and at a moment that can bear it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_noted() -> Iterator[Callable[[], None]]:
    """Hold Ctrl-C back in a block, and give a function that raises it if it came.

    In the midst of what a pool does with its locks, it would leave them locked, and the end waiting for ever.
    """
    came: list[int] = []

    def raise_noted() -> None:
        if came:
            raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield raise_noted
        return
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield raise_noted
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Let this process see Ctrl-C after the block, and those that start in it never, not even in imports."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
