"""What rank vectors cost: time for the reference corpus, time and memory for each sentence."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rankencoder.ranks import rank_vectors

if TYPE_CHECKING:
    from rankencoder.evaluation.subjects import Subject

SENTENCES = 512
_REPEATS = 3


def measure_cost(subject: Subject, sentences: list[str]) -> dict[str, Any]:
    """Return the milliseconds that each step to a sentence's vector takes, and the bytes that it needs."""
    some = sentences[:SENTENCES]
    encoder = subject.encoder
    vectors = encoder(some)
    device = encoder.device
    model = _milliseconds(lambda: encoder.encode_now(some), len(some), device)
    found: dict[str, Any] = {"sentences": len(some), "device": _device_name(device), "model_ms": model}
    found["threads"] = torch.get_num_threads()
    if subject.form is not None:
        form, reference = subject.form, subject.form.reference
        similarities = vectors @ reference.T
        steps: dict[str, Callable[[], Any]] = {
            "similarity_ms": lambda: vectors @ reference.T,
            "ranking_ms": lambda: rank_vectors(similarities),
            "form_ms": lambda: form(vectors),  # both together and, in the compact form, the projection
        }
        for name, step in steps.items():
            skipped = form.name == "linear" and name != "form_ms"
            found[name] = 0 if skipped else _milliseconds(step, len(some), device)
        part = subject.sentences[:: max(1, len(subject.sentences) // SENTENCES)][:SENTENCES]
        rate = _milliseconds(lambda: encoder.encode_now(part), len(part), device, repeats=1)
        found["reference_seconds"] = rate * len(subject.sentences) / 1000
        found["reference_sentences"] = len(subject.sentences)
        found["reference_bytes"] = reference.numel() * reference.element_size()
        found["form_bytes"] = sum(t.numel() * t.element_size() for t in form.tensors().values())
        found["vector_bytes"] = 4 * (form.dimension + reference.shape[1])
    found["peak_memory_bytes"] = _peak_memory()
    if device.type == "cuda":
        found["peak_gpu_bytes"] = torch.cuda.max_memory_allocated(device)
    return found


def _milliseconds(
    work: Callable[[], Any], number: int, device: torch.device, repeats: int = _REPEATS
) -> float:
    times = []
    for _ in range(repeats):
        _wait(device)
        start = time.perf_counter()
        work()
        _wait(device)
        times.append(time.perf_counter() - start)
    return 1000 * float(np.median(times)) / number


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def _peak_memory() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)
