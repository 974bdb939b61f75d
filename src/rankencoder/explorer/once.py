"""What is made once, when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """Something that is made when it is first asked for, by one thread, and then kept.

    >>> number = Once(lambda: print("counting") or 3)
    >>> number(), number()
    counting
    (3, 3)
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._lock = make, threading.Lock()
        self._made: list[T] = []

    def __call__(self) -> T:
        """Return it."""
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]
