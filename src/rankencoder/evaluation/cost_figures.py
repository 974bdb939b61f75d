"""Time and memory of an encoder and of its rank part."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from rankencoder.blend import blend_vectors, blended_dimension
from rankencoder.encoders import unit

if TYPE_CHECKING:
    from rankencoder.evaluation.subjects import Subject

SENTENCES = 512


def measure_cost(subject: Subject, sentences: list[str]) -> dict[str, Any]:
    """Return the milliseconds that a sentence's vector and its rank part take, and the bytes they need.

    ``total_ms`` is the sum of the parts: those of the repetition that took the middle time.
    """
    some, form, device = sentences[:SENTENCES], subject.form, subject.encoder.device
    times = sorted((_time_parts(subject, some) for _ in range(3)), key=sum)[1]
    model, rank_part = (round(1000 * seconds / len(some), 6) for seconds in times)
    found: dict[str, Any] = {
        "sentences": len(some),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        "threads": torch.get_num_threads(),
        "model_ms": model,
        "total_ms": model,
    }
    if form is not None:
        part = subject.sentences[:: max(1, len(subject.sentences) // SENTENCES)][:SENTENCES]
        rate = _time_parts(subject, part)[0] / len(part)
        found["form_ms"], found["total_ms"] = rank_part, round(model + rank_part, 6)
        found["reference_seconds"] = rate * len(subject.sentences)
        found["reference_bytes"] = form.reference.numel() * form.reference.element_size()
        found["form_bytes"] = sum(t.numel() * t.element_size() for t in form.tensors().values())
        dimensions = form.dimension, form.reference.shape[1]
        found["vector_bytes"] = 4 * blended_dimension(*dimensions, subject.rank_weight)
    return found


def _time_parts(subject: Subject, sentences: list[str]) -> tuple[float, float]:
    """Return the seconds that the encoder takes, and those of the rank part."""
    device = subject.encoder.device

    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    began = now()
    vectors = subject.encoder.encode_now(sentences)
    encoded = now()
    if subject.form is not None:
        base = unit(vectors)
        blend_vectors(subject.form(base), base, subject.rank_weight)
    return encoded - began, now() - encoded
