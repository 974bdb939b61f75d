"""Look at the GPU's ranking: is it right, how fast is it, what takes the time, which division is best.

One call answers all, writes what it has after every step, and ends itself after ``--seconds`` come what may::

    PYTHONPATH=src python3 benchmarks/ranking_gpu.py --json $OUT/ranking-gpu.json

Times of kernels are those of replayed CUDA graphs; "hot" is one matrix over and over, "cold" goes round
several that together are larger than the cache. Times of calls are by the clock, from call to result.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import statistics
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from speed.ranking import SIZES, similarities, torch_ranks
from speed.timing import compare, interleaved

from rankencoder import rank_vectors, ranks, ranks_cuda

DEVICE = torch.device("cuda", 0)
MAIN = (64, 100_000)
result: dict[str, Any] = {}
began = time.perf_counter()
deadline = 0.0


def left() -> float:
    """Return the seconds that are left."""
    return deadline - time.perf_counter()


def step(name: str, work: Callable[[], Any], path: Path | None, seconds: float) -> None:
    """Do one part, if there is time for it; what goes wrong in it stays in it."""
    print(f"\n== {name} (at {time.perf_counter() - began:.1f} s)", flush=True)
    if left() < seconds:
        print("no time left")
        return
    try:
        result[name] = work()
        torch.cuda.synchronize()
    except Exception:
        result[name] = {"error": traceback.format_exc()}
        print(traceback.format_exc()[-1500:])
    if path:
        path.write_text(json.dumps(result, indent=1) + "\n")


def graph_time(works: Sequence[Callable[[], Any]], *, seconds: float = 0.06) -> float:
    """Return the microseconds of one work, by replaying all of them as one graph."""
    for work in works[:2]:
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [work() for work in works]
    times: list[float] = []
    stop = time.perf_counter() + seconds
    while len(times) < 5 or (time.perf_counter() < stop and len(times) < 100):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(1000 * start.elapsed_time(end) / len(works))
    del kept
    return float(statistics.median(times[1:]))


@functools.cache
def matrix(rows: int, n: int) -> torch.Tensor:
    """Return similarities, made once."""
    return similarities(rows, n, "cuda")


def launches(kernel: ranks_cuda.Kernel, rows: int, n: int, plan: ranks_cuda.Plan, *, cold: bool) -> float:
    """Return the microseconds of a launch."""
    many = max(2, min(16, -(-200_000_000 // (8 * rows * n)))) if cold else 1
    first = matrix(rows, n)
    tensors = [first + i * 1e-3 for i in range(many)]
    outs = [torch.empty_like(tensor) for tensor in tensors]
    works = [partial(kernel.launch, tensors[i % many], outs[i % many], plan) for i in range(max(many, 8))]
    return graph_time(works)


def exact(rows: torch.Tensor) -> torch.Tensor:
    """Return the oracle: PyTorch's sort, in float64."""
    return rank_vectors(rows.double(), method="exact")


def check() -> dict[str, float]:
    """Compare the kernel with sorting, over sizes and kinds of rows."""
    generator = torch.Generator(device=DEVICE).manual_seed(int(time.time()))
    errors = {}
    for n in (2, 33, 1000, 4097, 10_000, 16_385, 50_001, 100_000, 131_071):
        normal = torch.randn(5, n, device=DEVICE, generator=generator)
        kinds = {
            "cosines": torch.tanh(0.1 * normal),
            "ties": (normal * 100).round() / 100,
            "signs": normal.sign(),
            "constant": torch.full_like(normal, 0.5),
            "ascending": normal.sort(dim=1).values,
            "skewed": (3 * normal).exp(),
            "cauchy": normal / normal.flip(1).add(1e-3),
            "half": normal.half().float(),
        }
        for kind, rows in kinds.items():
            kernel = ranks_cuda.kernel(DEVICE)
            assert kernel
            plan = kernel.plan(*rows.shape)
            assert plan
            status = kernel.launch(rows, torch.empty_like(rows), plan)
            refused = bool((status == ranks_cuda.UNEVEN).any())
            error = float((rank_vectors(rows) - exact(rows)).abs().max())
            errors[f"{kind}, {n}"] = error
            wrong = "  WRONG" if not error < 1e-7 else ""
            if wrong or refused:
                print(f"n = {n:,}, {kind}: error {error:.1e}, refused: {refused}{wrong}")
    print(
        f"{len(errors)} checks, largest error {max(errors.values()):.1e}, wrong:",
        sum(not error < 1e-7 for error in errors.values()),
    )
    rows = torch.tanh(torch.randn(64, 100_000, device=DEVICE, generator=generator))
    same = all(torch.equal(rank_vectors(rows), rank_vectors(rows)) for _ in range(5))
    print("five times the same:", same)
    try:
        rank_vectors(rows.index_fill(1, torch.tensor([7], device=DEVICE), torch.nan))
        print("NaN: NOT REFUSED")
    except ValueError as error:
        print("NaN:", error)
    return errors


def kernel_times() -> list[dict[str, Any]]:
    """Time a launch at every size."""
    kernel = ranks_cuda.kernel(DEVICE)
    assert kernel
    found = []
    print("| B | n | plan | hot, us | cold, us | bytes' floor, us |\n| --- | --- | --- | --- | --- | --- |")
    for rows, n in SIZES:
        plan = kernel.plan(rows, n)
        assert plan
        hot = launches(kernel, rows, n, plan, cold=False)
        cold = launches(kernel, rows, n, plan, cold=True)
        found.append({"B": rows, "n": n, "plan": plan, "hot_us": hot, "cold_us": cold})
        print(
            f"| {rows} | {n:,} | {tuple(plan)} | {hot:.1f} | {cold:.1f} | {8 * rows * n / 4.2e6:.2f} |",
            flush=True,
        )
    return found


def call_times() -> list[dict[str, Any]]:
    """Time whole calls against argsort: with its scatter, as in docs/speed.md, and alone."""
    found = []
    print(
        "| B | n | ours, ms | argsort + scatter | argsort alone | PyTorch's operations |\n"
        + "| --- " * 6
        + "|"
    )
    for rows, n in SIZES:
        tensor = matrix(rows, n)
        works = {
            "ours": partial(rank_vectors, tensor),
            "argsort + scatter": partial(torch_ranks, tensor),
            "argsort": partial(tensor.argsort, dim=1),
            "before": partial(without_kernel, partial(rank_vectors, tensor)),
        }
        row = {"B": rows, "n": n, **compare(works, "ours", rounds=21, device="cuda")}
        found.append(row)
        ratios = " | ".join(f"{peer['ratio']:.2f}x" for peer in row["peers"].values())
        print(f"| {rows} | {n:,} | {row['ms']:.4f} | {ratios} |", flush=True)
    return found


def without_kernel(work: Callable[[], Any]) -> Any:
    """Work as if there were no kernel."""
    found, ranks_cuda.kernel = ranks_cuda.kernel, lambda device: None  # type: ignore[assignment]
    try:
        return work()
    finally:
        ranks_cuda.kernel = found


def host_times() -> dict[str, float]:
    """Time what the host does for a call, in microseconds."""
    kernel = ranks_cuda.kernel(DEVICE)
    assert kernel
    tensor = matrix(1, 1000)
    out = torch.empty_like(tensor)
    plan = kernel.plan(1, 1000)
    assert plan
    status = kernel.launch(tensor, out, plan)
    ties = status.cpu()
    works = {
        "rank_vectors": lambda: rank_vectors(tensor),
        "kernel and plan": lambda: ranks_cuda.kernel(tensor.device).plan(1, 1000),  # type: ignore[union-attr]
        "launch": lambda: kernel.launch(tensor, out, plan),
        "status to the host": lambda: status.cpu(),
        "an empty tensor": lambda: torch.empty((1, 1000), device=tensor.device),
        "what follows": lambda: float((ties.double().clamp_(min=0).sum(dim=1) / 1e9).max()),
    }
    times = interleaved(works, rounds=200, device="cuda")
    found = {name: 1e6 * statistics.median(seconds) for name, seconds in times.items()}
    print(", ".join(f"{name} {us:.1f} us" for name, us in found.items()))
    return found


CUTS = {
    "sample and counting": "    const int words = bins / 2 / threads;\n",
    "prefix sums": "    // Ranks replace",
    "gathering": "    // Ranks replace",
    "comparing": "    ties = block_sum(ties);\n",
}
"""Up to where the kernel goes to time a part: before these lines, except for gathering's."""


def variants() -> Iterator[tuple[str, str]]:
    """Yield names and sources of kernels that stop early, or read more or less at a time."""
    source = ranks_cuda.SOURCE.read_text()
    gathering = source.index("    for (int start = first_read", source.index("offset += low + high"))
    stop = "    if (n > 0) { if (t == 0) status[block] = values[n % room]; return; }\n"
    for name, line in CUTS.items():
        at = gathering if name == "prefix sums" else source.index(line)
        yield f"up to {name}", source[:at] + stop + source[at:]
    for batch in (4, 8, 16):
        yield f"all, {batch} loads", source.replace("#define BATCH 8 ", f"#define BATCH {batch} ")


def parts_of_the_kernel() -> dict[str, float]:
    """Time kernels that stop early."""
    found = {}
    original = ranks_cuda.SOURCE
    try:
        for name, source in variants():
            with tempfile.TemporaryDirectory() as folder:
                ranks_cuda.SOURCE = Path(folder) / "ranks.cu"
                ranks_cuda.SOURCE.write_text(source)
                kernel = ranks_cuda.Kernel(DEVICE)
            plan = kernel.plan(*MAIN)
            assert plan
            found[name] = launches(kernel, *MAIN, plan, cold=False)
            print(f"{name}: {found[name]:.1f} us", flush=True)
    finally:
        ranks_cuda.SOURCE = original
    return found


def plans(n: int, shared: int) -> Iterator[ranks_cuda.Plan]:
    """Yield divisions of a row worth trying."""
    for parts, threads, share in product((1, 2, 3, 4, 6, 8, 12), (256, 512, 768, 1024), (1, 2, 4, 8)):
        room = min(n, -(-n // parts) + 1024)
        bins = min(-(-n // share // (2 * threads)) * 2 * threads, 2**15 // (2 * threads) * 2 * threads)
        plan = ranks_cuda.Plan(parts, threads, bins, room)
        if plan.shared + 256 <= shared and room < 2**16 and n // parts >= threads and bins:
            yield plan
    for parts, threads in product((2, 3), (512, 768, 1024)):
        room = -(-n // parts) + 1024
        bins = (shared - 256 - 4 * room) // (4 * threads) * 2 * threads if room < 2**16 else 0
        if bins > 0 and n > 50_000:
            yield ranks_cuda.Plan(parts, threads, min(bins, 2**15 // (2 * threads) * 2 * threads), room)


def best_plans() -> list[dict[str, Any]]:
    """Time every division at every size, and print the best ones."""
    kernel = ranks_cuda.kernel(DEVICE)
    assert kernel
    found = []
    for rows, n in sorted(SIZES, key=lambda size: size != MAIN):
        tensor = matrix(rows, n)
        out = torch.empty_like(tensor)
        default = kernel.plan(rows, n)
        assert default
        times: dict[ranks_cuda.Plan, float] = {}
        for plan in dict.fromkeys([default, *plans(n, kernel.shared)]):
            if left() < 25:
                break
            with contextlib.suppress(RuntimeError):  # too much for a processor
                if bool((kernel.launch(tensor, out, plan) >= 0).all()):
                    work = partial(kernel.launch, tensor, out, plan)
                    times[plan] = graph_time([work] * 8, seconds=0.006)
        ranked = sorted(times.items(), key=lambda item: item[1])
        found.append({"B": rows, "n": n, "plans": [{"plan": plan, "us": us} for plan, us in ranked]})
        best = "; ".join(f"{tuple(plan)} {us:.1f}" for plan, us in ranked[:4])
        print(f"B {rows}, n {n:,}: {best} us; ours {times.get(default, 0):.1f}", flush=True)
    return found


def compact() -> list[dict[str, Any]]:
    """Time the compact form against its encoder, as bench.py does, and its parts."""
    from speed.models import load, model_folder, reference, texts

    from rankencoder import RankEncoder
    from rankencoder.blend import blend_vectors
    from rankencoder.encoders import Encoder

    data, sentences = texts(8192)
    encoder = Encoder(load("22M", "cuda"))
    times = interleaved({"encoder": lambda: encoder(sentences)}, rounds=3, device="cuda")["encoder"]
    plain = 1000 * statistics.median(times)
    print(f"{model_folder('22M')[0]}, 8,192 {data}: {1e6 * plain / 1000 / 8192:.1f} us a sentence")
    found = []
    with torch.no_grad():
        vectors = encoder(sentences)
        for n in (10_000, 100_000):
            if left() < 8:
                break
            form: Any = RankEncoder(encoder, reference(encoder, sentences, n), progress=False).form
            half: Any = form.projection.half()
            size = max(1, ranks.MEMORY_BUDGET // (8 * n))
            some = vectors[:size]
            cosines = form.similarities(some)
            z = rank_vectors(cosines)

            def whole(form: Any = form) -> torch.Tensor:
                return blend_vectors(form(vectors), vectors, 0.1)

            def in_half(form: Any = form, half: Any = half) -> torch.Tensor:
                parts = form.map_ranks(
                    vectors, lambda ranks: torch.mm(ranks.half(), half, out_dtype=torch.float32)
                )
                return blend_vectors(torch.nn.functional.normalize(parts, dim=1), vectors, 0.1)

            works: dict[str, Callable[[], Any]] = {
                "compact": whole,
                "compact, projected in float16": in_half,
                "compact, without the kernel": partial(without_kernel, whole),
                "similarities": partial(form.similarities, some),
                "ranks": partial(rank_vectors, cosines),
                "projection": partial(z.matmul, form.projection),
            }
            medians = {
                name: 1000 * statistics.median(seconds)
                for name, seconds in interleaved(works, rounds=5, device="cuda").items()
            }
            row: dict[str, Any] = {"n": n, "encoder_ms": plain, "ms": medians}
            row["difference"] = float((whole() - in_half()).abs().max())
            found.append(row)
            print(f"n = {n:,}; float16 changes components by {row['difference']:.1e} at most")
            for name, ms in medians.items():
                each = 8192 if name.startswith("compact") else len(some)
                share = f", {ms / plain:.2%} of the encoder" if each == 8192 else ""
                print(f"  {name}: {1000 * ms / each:.2f} us a sentence{share}", flush=True)
    return found


def triton_times() -> dict[str, Any]:
    """Check and time the same idea in Triton, with counters in the L2 cache and four launches."""
    from ranking_triton import rank_by_triton

    found: dict[str, Any] = {}
    for rows, n in ((64, 1000), (64, 10_000), MAIN):
        tensor = matrix(rows, n)
        error = float((rank_by_triton(tensor).double() - exact(tensor)).abs().max())
        work = partial(rank_by_triton, tensor)
        call = statistics.median(interleaved({"triton": work}, rounds=11, device="cuda")["triton"])
        us = graph_time([work] * 4)
        found[f"{rows}, {n}"] = {"error": error, "us": us, "call_ms": 1000 * call}
        print(
            f"B {rows}, n {n:,}: error {error:.1e}, {us:.1f} us, a call {1000 * call:.3f} ms",
            flush=True,
        )
    return found


def describe() -> dict[str, Any]:
    """Say what it runs on, and compile the kernel, with the compiler's own words if it fails."""
    properties = torch.cuda.get_device_properties(DEVICE)
    start = time.perf_counter()
    kernel = ranks_cuda.Kernel(DEVICE)
    seconds = time.perf_counter() - start
    found = {
        "gpu": properties.name,
        "torch": torch.__version__,
        "shared": kernel.shared,
        "compile_s": seconds,
    }
    print(found, "processors", kernel.processors, "used:", ranks_cuda.kernel(DEVICE) is not None)
    return found


def give_up() -> None:
    """End, whatever hangs."""
    print("out of time", flush=True)
    os._exit(3)


def main() -> None:
    """Do all parts within the time."""
    global deadline
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=85)
    options = parser.parse_args()
    deadline = began + options.seconds
    timer = threading.Timer(options.seconds, give_up)
    timer.daemon = True
    timer.start()
    works: list[tuple[str, Callable[[], Any], float]] = [
        ("the kernel", describe, 0),
        ("correctness", check, 5),
        ("kernel times", kernel_times, 5),
        ("calls", call_times, 5),
        ("the host", host_times, 2),
        ("parts of the kernel", parts_of_the_kernel, 10),
        ("best plans", best_plans, 30),
        ("compact form", compact, 15),
        ("triton", triton_times, 8),
    ]
    for name, work, seconds in works:
        step(name, work, options.json, seconds)
    print(f"\ndone after {time.perf_counter() - began:.1f} s", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
