"""Show progress: a bar on a terminal, log lines elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from tqdm.auto import tqdm

LOG = logging.getLogger(__name__)
FIRST, EVERY = 3.0, 30.0  # seconds before the first line, and between others
FASTER = "another `backend` (auto), or a static student of this model (`distill`)"
_LONG = 300.0  # seconds from which on a faster way is named


class Progress:
    """Counts work that is done, and shows it as tqdm's bar or as lines of the log.

    After some seconds the log has a line with what is done and how long it will take, then one every half a
    minute; short work is silent. Work inside other work adds to it. Long work names what would be faster.

    :param total: How much there is to do, if that is known.
    :param desc: What is done.
    :param faster: What would take less time.
    """

    in_log: ClassVar[bool] = False
    """Whether lines go to the log: the command line decides it; in notebooks and scripts there are bars."""
    active: ClassVar[list[Progress]] = []
    due: ClassVar[float] = float("inf")
    """When the next line is to be written at the latest, whatever is done by then."""

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
        self.counted, self.inside = initial, 0  # done, and done of a part that is not counted yet
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
            self._log(f"{self.done:,} {self.unit} in {tqdm.format_interval(seconds)}", seconds)

    @property
    def done(self) -> int:
        """How much is done, of the part that is being done, too."""
        return self.counted + self.inside

    def update(self, number: int = 1, **values: float) -> None:
        """Count what was done; the values, such as a loss, are shown."""
        self.counted, self.inside = self.counted + number, 0
        self.values |= values
        self.bar.update(number)
        if values:
            self.bar.set_postfix(values, refresh=False)
        self._look()

    def over(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield items, and count them."""
        number, due = 0, 0.0
        with self:
            for item in items:
                yield item
                number += 1
                if time.monotonic() >= due:  # reading takes less time than showing it would
                    self.update(number)
                    number, due = 0, time.monotonic() + 0.1
            self.update(number)

    def _look(self) -> None:
        """Show what is to be shown by now."""
        if self.outer is not None and self.outer.unit == self.unit:
            self.outer.inside = self.done - self.initial
            self.outer._look()
        now = time.monotonic()
        if now < min(self.next, Progress.due) or self.done == self.initial:
            return
        self.next, self.lines = now + EVERY, self.lines + 1
        seconds = now - self.began
        left = self._left(seconds)
        if self.total and self.done > self.total:  # it was an estimate
            self.total = self.bar.total = None
        shown = [f"{self.done:,}{f' of {self.total:,}' if self.total else ''} {self.unit}"]
        shown += [f"{name} {value:.4g}" for name, value in self.values.items()]
        rate = (self.done - self.initial) / max(1e-9, seconds)
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
            self._log(text, seconds)

    def _left(self, seconds: float) -> float | None:
        """Return how long the rest will take, where that can be known."""
        done = self.done - self.initial
        return max(0, self.total - self.done) * seconds / done if self.total and done else None

    def _log(self, text: str, seconds: float) -> None:
        Progress.due = time.monotonic() + EVERY
        fields = {"task": self.desc, "unit": self.unit, "done": self.done, "total": self.total}
        rate, left = (self.done - self.initial) / max(1e-9, seconds), self._left(seconds)
        fields |= {"rate": round(rate, 3), "seconds_left": left and round(left, 1), **self.values}
        LOG.info("%s: %s", self.desc, text, extra={"fields": fields})
