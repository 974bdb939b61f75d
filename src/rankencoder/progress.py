"""Show progress: a bar on a terminal, log lines elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from tqdm.auto import tqdm

LOG = logging.getLogger(__name__)
FIRST, EVERY = 3.0, 30.0  # seconds before the first log line, and between lines
FASTER = "another `backend` (auto), or a static student of this model (`distill`)"
_LONG = 300.0  # expected seconds above which a faster way is suggested


class Progress:
    """Progress of long work, as a tqdm bar or as log lines.

    The log gets a line with progress and time left after a few seconds, then one every half minute; short
    work logs nothing. Nested work counts towards the outer work. Long work suggests a faster way.

    :param total: The amount of work, if known.
    :param desc: A description of the work.
    :param faster: A faster way to suggest.
    """

    in_log: ClassVar[bool] = False
    """Whether to log lines instead of showing bars, as the command line does outside a terminal."""
    active: ClassVar[list[Progress]] = []
    due: ClassVar[float] = float("inf")
    """When the next log line is due, regardless of progress."""

    def __init__(
        self,
        total: int | None = None,
        *,
        desc: str,
        unit: str = "sentences",
        faster: str = "",
        initial: int = 0,
        show: bool = True,
    ) -> None:
        self.total, self.desc, self.unit, self.faster, self.initial = total, desc, unit, faster, initial
        self.counted, self.inside = initial, 0  # done, and done inside nested work
        self.values: dict[str, float] = {}
        self.began = time.monotonic()
        self.next, self.lines = self.began + FIRST, 0
        self.outer = self.active[-1] if self.active else None
        self.is_logged: bool = show and self.in_log and not any(one.is_logged for one in self.active)
        hidden = self.in_log or not show
        self.bar = tqdm(total=total, desc=desc, unit=f" {unit}", initial=initial, disable=hidden)
        if self.in_log and (show or self.active):  # threads of a server show nothing
            self.active.append(self)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()
        if self in self.active:
            self.active.remove(self)
        if self.is_logged and self.lines:
            seconds = time.monotonic() - self.began
            self._log(f"{self.done:,} {self.unit} in {tqdm.format_interval(seconds)}", *self._rate(seconds))

    @property
    def done(self) -> int:
        """The amount done, including nested work."""
        return self.counted + self.inside

    def update(self, number: int = 1, **values: float) -> None:
        """Count finished work, and show values such as a loss."""
        self.counted, self.inside = self.counted + number, 0
        self.values |= values
        self.bar.update(number)
        if values:
            self.bar.set_postfix(values, refresh=False)
        self._look()

    def over(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield items and count them."""
        number, due = 0, 0.0
        with self:
            for item in items:
                yield item
                number += 1
                if time.monotonic() >= due:  # reading is faster than showing
                    self.update(number)
                    number, due = 0, time.monotonic() + 0.1
            self.update(number)

    def _look(self) -> None:
        """Show progress when it is due."""
        if self.outer is not None and self.outer.unit == self.unit:
            self.outer.inside = self.done - self.initial
            self.outer._look()
        now = time.monotonic()
        if now < min(self.next, Progress.due) or self.done == self.initial:
            return
        self.next, self.lines = now + EVERY, self.lines + 1
        seconds = now - self.began
        rate, left = self._rate(seconds)
        if self.total and self.done > self.total:  # the total was an estimate
            self.total = self.bar.total = None
        shown = [f"{self.done:,}{f' of {self.total:,}' if self.total else ''} {self.unit}"]
        shown += [f"{name} {value:.4g}" for name, value in self.values.items()]
        shown += [f"{rate:,.0f}/s" if rate >= 100 else f"{rate:.3g}/s"]
        shown += [] if left is None else [f"about {tqdm.format_interval(left)} left"]
        text = ", ".join(shown)
        if self.lines == 1 and seconds + (left or 0) > _LONG:
            torch: Any = sys.modules.get("torch")
            gpu = "" if torch is None or torch.cuda.is_available() else "a GPU"
            text += f"; faster: {' or '.join(filter(None, [self.faster, gpu])) or 'less text'}"
            if not self.bar.disable:
                self.bar.write(f"{self.desc}: {text}", file=sys.stderr)
        if self.is_logged:
            self._log(text, rate, left)

    def _rate(self, seconds: float) -> tuple[float, float | None]:
        """Return the work per second, and the remaining seconds if the total is known."""
        rate = (self.done - self.initial) / max(1e-9, seconds)
        return rate, max(0, self.total - self.done) / rate if self.total and rate else None

    def _log(self, text: str, rate: float, left: float | None) -> None:
        Progress.due = time.monotonic() + EVERY
        fields = {"task": self.desc, "unit": self.unit, "done": self.done, "total": self.total}
        fields |= {"rate": round(rate, 3), "seconds_left": left and round(left, 1), **self.values}
        LOG.info("%s: %s", self.desc, text, extra={"fields": fields})
