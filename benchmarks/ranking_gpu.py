"""Check and time ranking on an NVIDIA GPU: kernels, calls, and the compact form's share of encoding.

The GPU's times are those of replayed CUDA graphs, times of calls are by the clock, from call to result::

    PYTHONPATH=src:benchmarks python3 benchmarks/ranking_gpu.py --json ranking-gpu.json --seconds 60
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import math
import statistics
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from speed.models import load, model_folder, reference, texts
from speed.ranking import SIZES, similarities, torch_ranks
from speed.timing import compare, interleaved

from rankencoder import RankEncoder, rank_vectors, ranks_cuda
from rankencoder.encoders import Encoder
from rankencoder.ranks import training_rank_vectors

Work = Callable[..., Any]
DEVICE = torch.device("cuda", 0)
SENTENCES = (8_192, 65_536)  # beyond the first, sentences are tokenized by all cores, and ahead of the GPU


def by_torch(work: Work, tensor: torch.Tensor) -> Any:
    """Do a work as if there were no kernel."""
    found, ranks_cuda.kernel = ranks_cuda.kernel, lambda device: None  # type: ignore[assignment]
    try:
        return work(tensor)
    finally:
        ranks_cuda.kernel = found


def exact(rows: torch.Tensor) -> torch.Tensor:
    """Return the oracle: PyTorch's sort, in float64."""
    return rank_vectors(rows.double(), method="exact")


def rows_of(n: int) -> dict[str, torch.Tensor]:
    """Return five rows of each kind."""
    normal = torch.randn(5, n, device=DEVICE)
    return {
        "cosines": torch.tanh(0.1 * normal),
        "ties": (normal * 100).round() / 100,
        "signs": normal.sign(),
        "constant": torch.full_like(normal, 0.5),
        "ascending": normal.sort(dim=1).values,
        "skewed": (3 * normal).exp(),
        "cauchy": normal / normal.flip(1).add(1e-3),
        "float16": normal.half().float(),
    }


def check() -> dict[str, float]:
    """Return the largest error of every kind of row, of rank vectors and of those in training."""
    errors: dict[str, float] = {}
    ways = {"": rank_vectors, ", training": training_rank_vectors}
    for n in (2, 33, 1000, 4097, 10_000, 16_385, 50_001, 100_000, 131_071):
        for kind, rows in rows_of(n).items():
            for way, rank in ways.items():
                error = float((rank(rows) - exact(rows)).abs().nan_to_num(9).max())
                errors[kind + way] = max(errors.get(kind + way, 0.0), error)
    for name, error in errors.items():
        print(f"{name}: {error:.1e}" + (" WRONG" if error > 2e-7 else ""), flush=True)
    return errors


def gpu_time(work: Work, number: int = 8, rounds: int = 50) -> float:
    """Return the microseconds of the GPU for a work, by replaying some of them as a graph."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            kept = [work() for _ in range(number)]
    except RuntimeError as error:  # what waits for the GPU cannot be captured
        print(str(error).splitlines()[0])
        return math.nan
    times = []
    for _ in range(rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(1000 * start.elapsed_time(end) / number)
    del kept
    return float(statistics.median(times[1:]))


def ranking(rows: int, n: int) -> dict[str, Any]:
    """Time a size: the GPU's work and whole calls, beside argsort's."""
    kernel: Any = ranks_cuda.kernel(DEVICE)  # None if it does not compile or load
    plan = kernel.plan(rows, n)
    tensor = similarities(rows, n, "cuda")
    gpu = {
        "ours": gpu_time(partial(kernel.rank, tensor, torch.empty_like(tensor), plan, wait=False)),
        "argsort": gpu_time(partial(tensor.argsort, dim=1)),
        "training": gpu_time(partial(training_rank_vectors, tensor)),
    }
    if n >= 10_000:  # shorter rows cannot be captured without the kernel
        gpu["training by torch"] = gpu_time(partial(by_torch, training_rank_vectors, tensor))
    works = {
        "ours": partial(rank_vectors, tensor),
        "argsort": partial(tensor.argsort, dim=1),
        "argsort + scatter": partial(torch_ranks, tensor),
        "by torch": partial(by_torch, rank_vectors, tensor),
    }
    call = compare(works, "ours", rounds=51, device="cuda", scale=1e6)
    times = " | ".join(f"{us:.1f}" for us in gpu.values()) + " | –" * (4 - len(gpu))
    ratios = " | ".join(f"{peer['ratio']:.2f}x" for peer in call["peers"].values())
    print(f"| {rows} | {n:,} | {tuple(plan)} | {times} | {call['ms']:.1f} | {ratios} |", flush=True)
    return {"B": rows, "n": n, "plan": plan._asdict(), "gpu_us": gpu, "call_us": call}


def sizes() -> list[dict[str, Any]]:
    """Time every size: microseconds of the GPU and of our call, and how many times as long others take."""
    print("| B | n | plan | ours | argsort | training | by torch | call | argsort | + scatter | by torch |")
    print("| --- " * 11 + "|")
    return [ranking(*size) for size in SIZES]


@cache
def encoded(number: int) -> tuple[Encoder, torch.Tensor, list[str], float]:
    """Return an encoder, vectors of sentences, these, and the seconds that they took."""
    data, sentences = texts(number)
    encoder = Encoder(load("22M", "cuda"))
    times = interleaved({"encoder": lambda: encoder(sentences)}, rounds=3, device="cuda")["encoder"]
    plain = statistics.median(times)
    print(f"{model_folder('22M')[0]}, {number:,} {data}: {1e6 * plain / number:.1f} us")
    return encoder, encoder(sentences), sentences, plain


@torch.no_grad()
def compact(n: int, number: int) -> dict[str, float]:
    """Time the compact form against its encoder, and compare its cosines with those in float64."""
    encoder, vectors, sentences, plain = encoded(number)
    form: Any = RankEncoder(encoder, reference(encoder, sentences, n), progress=False).form
    some = vectors[:2048]
    true = exact(some.double() @ form.reference.double().T) @ form.projection.double()
    true = torch.nn.functional.normalize(true, dim=1)
    found = form(some).double()
    works = {"ours": partial(form, vectors), "torch": partial(by_torch, form, vectors)}
    times = interleaved(works, rounds=7, device="cuda")
    ours, by_sort = (statistics.median(times[name]) for name in works)
    result = {
        "us": 1e6 * ours / number,
        "encoder_us": 1e6 * plain / number,
        "share": ours / plain,
        "share ranked by torch": by_sort / plain,
        "error": float((found @ found.T - true @ true.T).abs().max()),
    }
    print(", ".join(f"{name} {value:.4g}" for name, value in result.items()), flush=True)
    return result


def main() -> None:
    """Do all parts, and write what there is after each."""
    began = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("ranking-gpu.json"))
    parser.add_argument("--seconds", type=float, default=60, help="end by then, whatever hangs")
    options = parser.parse_args()
    faulthandler.dump_traceback_later(options.seconds, exit=True)
    result: dict[str, Any] = {"gpu": torch.cuda.get_device_name(DEVICE), "torch": torch.__version__}
    shares = {
        f"compact, n = {n:,}, {number:,} sentences": partial(compact, n, number)
        for number in SENTENCES
        for n in (10_000, 100_000)
    }
    works: dict[str, Work] = {"ranking": sizes, "errors": check, **shares}
    for name, work in works.items():
        print(f"\n== {name} (at {time.perf_counter() - began:.1f} s)", flush=True)
        result[name] = work()
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
