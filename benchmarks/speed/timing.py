"""The arithmetic of all timings: interleaved rounds, medians, ratios, growth."""

from __future__ import annotations

import math
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

Work = Callable[[], object]
_clocks: list[Callable[[], float]] = [time.perf_counter]


def use_processor_time() -> None:
    """Count the seconds that the processor worked for us, on one thread: for machines that others use."""
    torch.set_num_threads(1)
    _clocks[0] = _processor_time


def _processor_time() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def wait(device: str) -> None:
    """Wait until a device has finished what it was given."""
    if device == "cuda":
        torch.cuda.synchronize()


def interleaved(works: Mapping[str, Work], *, rounds: int, device: str = "cpu") -> dict[str, list[float]]:
    """Time several works in turn, round after round: what disturbs the machine then disturbs all of them.

    The first round warms up and does not count. Every other round goes through the works backwards.

    :return: For each work its seconds, round by round.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds + 1):
        names = list(works) if turn % 2 else list(works)[::-1]
        for name in names:
            wait(device)
            start = _clocks[0]()
            works[name]()
            wait(device)
            if turn:
                times[name].append(_clocks[0]() - start)
    return times


def ratio(peer: Sequence[float], ours: Sequence[float]) -> float:
    """Return the median over rounds of peer time / our time: above 1 we are faster."""
    return statistics.median(p / o for p, o in zip(peer, ours, strict=True))


def compare(
    works: Mapping[str, Work], ours: str, *, rounds: int, device: str = "cpu", scale: float = 1000
) -> dict[str, Any]:
    """Time our work beside its peers.

    :param scale: What a second counts, 1000 for milliseconds.
    :return: ``ms`` of ours, and of each peer ``ms`` and ``ratio`` (peer time / our time), all medians.
    """
    times = interleaved(works, rounds=rounds, device=device)
    peers = {
        name: {"ms": scale * statistics.median(found), "ratio": ratio(found, times[ours])}
        for name, found in times.items()
        if name != ours
    }
    return {"ms": scale * statistics.median(times[ours]), "peers": peers}


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """Return p of the least-squares fit time ∝ size^p, on log axes.

    :raises ValueError: If there are fewer than two different sizes.
    """
    x, y = [math.log(size) for size in sizes], [math.log(t) for t in times]
    return statistics.linear_regression(x, y).slope
