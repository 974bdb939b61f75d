"""The most memory that a work took."""

from __future__ import annotations

from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")


def reset_peak(device: str) -> None:
    """Begin to watch."""
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        return
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:  # not Linux, or a kernel that does not offer it
        return


def peak(device: str) -> int | None:
    """Return the peak since `reset_peak` in bytes: the GPU's own, or that of the whole process."""
    if device == "cuda":
        return int(torch.cuda.max_memory_allocated())
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("VmHWM")]
    return 1024 * int(found[0]) if found else None
