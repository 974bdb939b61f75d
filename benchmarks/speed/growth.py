"""How cost grows with reference corpus, rows, sentences and batch: times and fitted exponents."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from rankencoder import rank_vectors
from rankencoder.encoders import Encoder
from speed import memory, scaling
from speed.models import load, reference, texts
from speed.ranking import similarities
from speed.timing import exponent, interleaved, wait
from speed.training import step_by_batch

Curve = dict[str, Any]
_CORPORA = [10_000, 100_000, 1_000_000, 10_000_000]
_DIFFERENT = 1_000_000  # sentences; larger corpora repeat them
_PART = 125_000  # sentences


def curve(what: str, x: str, sizes: list[int], ms: list[float]) -> Curve:
    """Return sizes, times and the exponents: of all sizes, and of the last two alone."""
    return {
        "what": what,
        "x": x,
        "sizes": sizes,
        "ms": ms,
        "exponent": exponent(sizes, ms),
        "last_exponent": exponent(sizes[-2:], ms[-2:]),
    }


def measure(device: str, *, quick: bool, largest_distillation: int) -> Iterator[Curve]:
    """Time each size in turn with the others of its curve, and yield what is done."""
    gpu = device == "cuda"
    many = [1_000, 3_000, 10_000, 30_000, 100_000] + ([] if quick else [300_000, 1_000_000])
    yield _ranking("ranking 16 rows", "n, reference sentences", [(16, n) for n in many], device)
    yield _ranking("ranking, n = 10,000", "B, rows", [(b, 10_000) for b in (4, 16, 64, 256, 1024)], device)
    yield _encoding([64, 640] if not gpu else [400, 4_000, 40_000], device)
    if not gpu:
        sizes = [1_000, 10_000] if quick else [1_000, 10_000, 100_000, 1_000_000]
        yield from scaling.measure(sizes, largest_distillation)
    else:
        yield from _corpora(_CORPORA[:-1] if quick else _CORPORA)
    batches = [16, 64, 256] if gpu else [4, 16]
    ms = step_by_batch(device, tuple(batches), 60 if gpu else 5)
    yield curve("a training step of stage 1, 22M", "B, sentences", batches, ms)


def _corpora(sizes: list[int]) -> Iterator[Curve]:
    """Time encoding and ranking whole corpora on a GPU in half precision, a part at a time."""
    from rankencoder import RankEncoder

    encoder = Encoder(load("22M", "cuda", half=True), batch_size=128)
    _, sentences = texts(min(sizes[-1], _DIFFERENT))
    model = RankEncoder(encoder, reference(encoder, sentences, 10_000), progress=False)
    vectors = encoder(sentences[:_PART])
    works: dict[str, tuple[Callable[[Any], Any], Any]] = {
        "ranking a corpus, 22M, float16": (model.blend, vectors),
        "encoding and ranking it": (model.encode, sentences),
    }
    for what, (work, source) in works.items():
        ms, peaks, part = [], [], min(_PART, len(source))
        for number in sizes:
            memory.reset_peak("cuda")
            began = time.perf_counter()
            for start in range(0, number, part):
                at = start % len(source)
                work(source[at : min(at + part, at + number - start)])
            wait("cuda")
            ms.append(1000 * (time.perf_counter() - began))
            peaks.append(memory.peak("cuda"))
        yield {**curve(what, "sentences", sizes, ms), "peak_bytes": peaks}


def _ranking(what: str, x: str, shapes: list[tuple[int, int]], device: str) -> Curve:
    tensors = {shape: similarities(*shape, device) for shape in shapes}
    works = {str(shape): lambda t=t: rank_vectors(t) for shape, t in tensors.items()}
    times = interleaved(works, rounds=5, device=device)
    sizes = [max(shape) if x.startswith("n") else shape[0] for shape in shapes]
    return curve(what, x, sizes, [1000 * statistics.median(found) for found in times.values()])


def _encoding(numbers: list[int], device: str) -> Curve:
    encoder = Encoder(load("22M", device))
    _, sentences = texts(max(numbers))
    works = {str(number): lambda k=number: encoder(sentences[:k]) for number in numbers}
    times = interleaved(works, rounds=2, device=device)
    ms = [1000 * statistics.median(found) for found in times.values()]
    return curve("encoding a corpus, 22M", "sentences", numbers, ms)
