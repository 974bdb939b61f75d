"""Encoding against ``SentenceTransformer.encode``, what the rank part adds to it, and what a sentence takes.

The overhead is that of the rank part (similarities, ranks, projection, blend) over the encoder's own time,
each timed alone: as the difference of two long times it would drown in the noise of most machines.
"""

from __future__ import annotations

import statistics
from typing import Any

import torch

from rankencoder import RankEncoder
from rankencoder.blend import blend_vectors
from rankencoder.encoders import Encoder
from speed.models import load, model_folder, reference, texts
from speed.timing import compare, interleaved

FORMS = ("exact", "compact", "linear")
_EXACT_MOST = 10_000  # references with which the exact form is timed: a float for each is a vector's length


def measure(device: str, *, quick: bool) -> list[dict[str, Any]]:
    """Time encoders of each size, on a GPU in both precisions."""
    found = [_measure(device, "22M", half=False, quick=quick)]
    if device == "cuda":
        found += [_measure(device, size, half=half, quick=quick) for size, half in _MORE]
    return found


_MORE = (("22M", True), ("BERT-base", False), ("BERT-base", True))


def _measure(device: str, size: str, *, half: bool, quick: bool) -> dict[str, Any]:
    data, sentences = texts((128 if quick else 512) if device == "cpu" else 8192)
    model = load(size, device, half=half)
    encoder = Encoder(model)
    rounds = 7 if device == "cpu" and not quick else 3
    works = {
        "ours": lambda: encoder(sentences),
        "SentenceTransformer.encode": lambda: model.encode(sentences, convert_to_tensor=True),
    }
    compact = RankEncoder(encoder, reference(encoder, sentences, 10_000), progress=False)
    works["RankEncoder.encode, n = 10,000"] = lambda: compact.encode(sentences)
    times = compare(works, "ours", rounds=rounds, device=device)
    with torch.inference_mode():
        vectors = encoder(sentences)
    with torch.no_grad():
        sizes = (10_000, 100_000) if size == "22M" and not half and not quick else (10_000,)
        parts = _parts(compact, encoder, sentences, vectors, times["ms"], device, sizes)
    return {
        "model": model_folder(size)[0],
        "precision": "float16" if half else "float32",
        "data": data,
        "sentences": len(sentences),
        "mean_tokens": _mean_tokens(model, sentences),
        "sentences_per_second": 1000 * len(sentences) / times["ms"],
        **times,
        "rank_parts": parts,
    }


def _parts(
    compact: RankEncoder,
    encoder: Encoder,
    sentences: list[str],
    vectors: torch.Tensor,
    plain: float,
    device: str,
    sizes: tuple[int, ...],
) -> list[dict[str, Any]]:
    found = []
    for n in sizes:
        model = compact
        if n != 10_000:
            model = RankEncoder(encoder, reference(encoder, sentences, n), progress=False)
        for name in FORMS:
            row: dict[str, Any] = {"form": name, "n": n}
            row["bytes_per_sentence"] = _bytes(name, model, vectors.shape[1])
            if name != "exact" or n <= _EXACT_MOST:
                form = (model if name == "compact" else model.with_form(name)).form
                works = {"part": lambda f=form: blend_vectors(f(vectors), vectors, 0.1)}
                times = interleaved(works, rounds=5, device=device)["part"]
                row["ms"] = 1000 * statistics.median(times)
                row["overhead"] = row["ms"] / plain
            found.append(row)
    return found


def _bytes(name: str, model: RankEncoder, dimension: int) -> int:
    numbers = {"exact": len(model.reference), "compact": model.form.dimension, "linear": dimension}
    return 4 * (numbers[name] + dimension)


def _mean_tokens(model: Any, sentences: list[str]) -> float:
    tokens = model.tokenizer(sentences, truncation=True, max_length=model.max_seq_length)["input_ids"]
    return round(statistics.mean(map(len, tokens)), 1)
