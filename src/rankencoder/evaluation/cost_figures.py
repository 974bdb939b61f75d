"""What rank vectors cost: time for the reference corpus, time and bytes for each sentence."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from rankencoder.evaluation.subjects import Subject

SENTENCES = 512


def measure_cost(subject: Subject, sentences: list[str]) -> dict[str, Any]:
    """Return the milliseconds that a sentence's vector and its rank part take, and the bytes they need."""
    some = sentences[:SENTENCES]
    encoder, form = subject.encoder, subject.form
    vectors = encoder(some)
    device = encoder.device
    found = {
        "sentences": len(some),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        "threads": torch.get_num_threads(),
        "model_ms": _milliseconds(lambda: encoder.encode_now(some), len(some), device),
    }
    if form is not None:
        part = subject.sentences[:: max(1, len(subject.sentences) // SENTENCES)][:SENTENCES]
        rate = _milliseconds(lambda: encoder.encode_now(part), len(part), device, repeats=1)
        found["form_ms"] = _milliseconds(lambda: form(vectors), len(some), device)
        found["reference_seconds"] = rate * len(subject.sentences) / 1000
        found["form_bytes"] = sum(t.numel() * t.element_size() for t in form.tensors().values())
        found["vector_bytes"] = 4 * (form.dimension + form.reference.shape[1])
    return found


def _milliseconds(work: Callable[[], Any], number: int, device: torch.device, repeats: int = 3) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - start)
    return 1000 * float(np.median(times)) / number
