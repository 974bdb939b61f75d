"""The machine that figures come from, and its two floors: bytes moved a second, and operations a second."""

from __future__ import annotations

import os
import platform
import statistics
from pathlib import Path
from typing import Any

import torch

from rankencoder.provenance import provenance
from speed.timing import interleaved

_COPIED = {"cpu": 2**28, "cuda": 2**31}  # bytes: far more than any cache holds
_SIDE = {"cpu": 1024, "cuda": 8192}


def processor() -> str:
    """Return the processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def describe(devices: list[str]) -> dict[str, Any]:
    """Return what a reader of figures must know of the machine."""
    found = {
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load_average_before": round(os.getloadavg()[0], 2),
        "gpu": torch.cuda.get_device_name() if "cuda" in devices else None,
        **provenance(),
    }
    return {**found, "floors": {device: floors(device) for device in devices}}


def floors(device: str) -> dict[str, float]:
    """Measure what no program on this device can beat.

    :return: ``bytes_per_second`` of a copy in memory (read and written), ``flops_per_second`` of a product of
        large float32 matrices, and on a GPU of float16 ones.
    """
    source = torch.zeros(_COPIED[device] // 4, device=device)
    target = torch.empty_like(source)
    square = torch.randn(_SIDE[device], _SIDE[device], device=device)
    works = {"copy": lambda: target.copy_(source), "product": lambda: square @ square}
    if device == "cuda":
        half = square.half()
        works["half product"] = lambda: half @ half
    times = {name: statistics.median(t) for name, t in interleaved(works, rounds=5, device=device).items()}
    operations = 2 * float(_SIDE[device]) ** 3
    found = {
        "bytes_per_second": 2 * source.numel() * 4 / times["copy"],
        "flops_per_second": operations / times["product"],
    }
    if device == "cuda":
        found["half_flops_per_second"] = operations / times["half product"]
    return found
