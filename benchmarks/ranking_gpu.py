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
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product as cross
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
        print(traceback.format_exc()[-900:])
    if path:
        path.write_text(json.dumps(result, indent=1) + "\n")


def restart_if_broken(done: int) -> None:
    """Go on in a new process if CUDA no longer works, as after an illegal address."""
    try:
        torch.cuda.synchronize()
    except Exception as error:
        print(f"starting again, because of {str(error).splitlines()[0]}", flush=True)
        own = ["--seconds", str(left()), "--skip", str(done)]
        os.execv(sys.executable, [sys.executable, *sys.argv, *own])


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
    errors, sorted_instead = {}, []
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
            if not error < 1e-7:
                print(f"n = {n:,}, {kind}: error {error:.1e}, refused: {refused} WRONG")
            elif refused:
                sorted_instead.append(f"{kind} {n:,}")
    print(
        f"{len(errors)} checks, largest error {max(errors.values()):.1e}, wrong:",
        sum(not error < 1e-7 for error in errors.values()),
    )
    print("refused, and sorted instead:", ", ".join(sorted_instead))
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


def to_pinned(status: torch.Tensor, pinned: torch.Tensor) -> torch.Tensor:
    """Copy to the host's pinned memory, and wait for it."""
    pinned.copy_(status, non_blocking=True)
    torch.cuda.current_stream().synchronize()
    return pinned


def launch_to_pinned(
    kernel: ranks_cuda.Kernel, rows: torch.Tensor, out: torch.Tensor, plan: ranks_cuda.Plan
) -> torch.Tensor:
    """Launch with the status in the host's pinned memory, and wait for it."""
    status = torch.full((len(rows), plan.parts), -9.0, pin_memory=True)
    kernel.launch(rows, out, plan, status)
    torch.cuda.current_stream().synchronize()
    if bool((status < 0).any()):
        raise RuntimeError(f"pinned status is {status}")
    return status


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
    works: dict[str, Callable[[], object]] = {
        "rank_vectors": lambda: rank_vectors(tensor),
        "kernel and plan": lambda: ranks_cuda.kernel(tensor.device).plan(1, 1000),  # type: ignore[union-attr]
        "launch": lambda: kernel.launch(tensor, out, plan),
        "status to the host": lambda: status.cpu(),
        "status to pinned memory": partial(to_pinned, status, torch.empty_like(ties).pin_memory()),
        "a pinned tensor": lambda: torch.empty((1, 1), pin_memory=True),
        "synchronize the stream": torch.cuda.current_stream().synchronize,
        "launch and status to the host": lambda: kernel.launch(tensor, out, plan).cpu(),
        "launch with pinned status": partial(launch_to_pinned, kernel, tensor, out, plan),
        "argsort": lambda: tensor.argsort(dim=1),
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


def parts_of_the_kernel() -> dict[str, list[float]]:
    """Time kernels that stop early."""
    found = {}
    print("| us | 64, 100,000 | 1, 1,000 | 1, 100,000 | 64, 10,000 | 512, 10,000 |")
    original = ranks_cuda.SOURCE
    try:
        for name, source in variants():
            with tempfile.TemporaryDirectory() as folder:
                ranks_cuda.SOURCE = Path(folder) / "ranks.cu"
                ranks_cuda.SOURCE.write_text(source)
                kernel = ranks_cuda.Kernel(DEVICE)
            times = []
            for size in (MAIN, (1, 1000), (1, 100_000), (64, 10_000), (512, 10_000)):
                plan = kernel.plan(*size)
                assert plan
                times.append(launches(kernel, *size, plan, cold=False))
            found[name] = times
            print(f"| {name} | " + " | ".join(f"{us:.1f}" for us in times) + " |", flush=True)
    finally:
        ranks_cuda.SOURCE = original
    return found


def plans(n: int, shared: int) -> Iterator[ranks_cuda.Plan]:
    """Yield divisions of a row worth trying."""
    for parts, threads, share in cross((1, 2, 3, 4, 6, 8, 12), (256, 512, 768, 1024), (1, 2, 4, 8)):
        room = min(n, -(-n // parts) + 1024)
        bins = min(-(-n // share // (2 * threads)) * 2 * threads, 2**15 // (2 * threads) * 2 * threads)
        plan = ranks_cuda.Plan(parts, threads, bins, room)
        if plan.shared + 256 <= shared and room < 2**16 and n // parts >= threads and bins:
            yield plan
    for parts, threads in cross((2, 3), (512, 768, 1024)):
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
            if left() < 12:
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


@functools.cache
def encoded() -> tuple[Any, torch.Tensor, list[str], float]:
    """Return the encoder, vectors of 8,192 sentences, the sentences, and the milliseconds they took."""
    from speed.models import load, model_folder, texts

    from rankencoder.encoders import Encoder

    data, sentences = texts(8192)
    encoder = Encoder(load("22M", "cuda"))
    times = interleaved({"encoder": lambda: encoder(sentences)}, rounds=3, device="cuda")["encoder"]
    ms = 1000 * statistics.median(times)
    print(f"{model_folder('22M')[0]}, 8,192 {data}: {1000 * ms / 8192:.1f} us a sentence ({ms:.0f} ms)")
    return encoder, encoder(sentences), sentences, ms


@functools.cache
def fitted(n: int) -> Any:
    """Return a compact form with n references."""
    from speed.models import reference

    from rankencoder import RankEncoder

    encoder, _, sentences, _ = encoded()
    return RankEncoder(encoder, reference(encoder, sentences, n), progress=False).form


@contextlib.contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Multiply in TensorFloat-32."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


PRODUCTS = ("float32", "tf32", "float16", "bfloat16")


def product(kind: str, other: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the product with a matrix in some precision, accumulated in float32."""
    if kind in ("float32", "tf32"):

        def multiply(x: torch.Tensor) -> torch.Tensor:
            with tf32(kind == "tf32"):
                return x @ other

        return multiply
    dtype = getattr(torch, kind)
    scale = len(other) ** 0.5 if other.shape[0] > other.shape[1] else 1.0  # ranks of 1/sqrt(n) are tiny
    small = (other * scale).to(dtype)
    return lambda x: torch.mm(
        torch.mul(x, scale, out=torch.empty_like(x, dtype=dtype)), small, out_dtype=torch.float32
    )


def compact_in(
    form: Any, vectors: torch.Tensor, similar: Callable[..., Any], project: Callable[..., Any]
) -> torch.Tensor:
    """Do what the compact form does with two products of some precision."""
    step = max(1, ranks.MEMORY_BUDGET // (8 * len(form.reference)))
    parts = [project(rank_vectors(similar(part), tolerance=ranks.COARSE)) for part in vectors.split(step)]
    return torch.nn.functional.normalize(torch.cat(parts), dim=1)


def in_double(form: Any, vectors: torch.Tensor) -> torch.Tensor:
    """Return the compact form in float64, by sorting."""
    z = rank_vectors(vectors.double() @ form.reference.double().T, method="exact")
    return torch.nn.functional.normalize(z @ form.projection.double(), dim=1)


def compact(n: int) -> dict[str, Any]:
    """Time the compact form against its encoder, as bench.py does, and in other precisions."""
    from rankencoder.blend import blend_vectors

    _, vectors, _, plain = encoded()
    with torch.no_grad():
        form = fitted(n)
        some = vectors[:512]
        true = in_double(form, some)
        cosines = true @ true.T
        works: dict[str, Callable[[], torch.Tensor]] = {
            "as it is": partial(form, vectors),
            "without the kernel": partial(without_kernel, partial(form, vectors)),
        }
        errors = {
            "as it is": form(some),
            "without the kernel": without_kernel(partial(form, some)),
        }
        both = [(a, b) for a in PRODUCTS for b in PRODUCTS]
        for first, second in both if n == 100_000 else [*zip(PRODUCTS, PRODUCTS, strict=True)]:
            similar = product(first, form.reference.T)
            project = product(second, form.projection)
            name = f"{first}, {second}"
            works[name] = partial(compact_in, form, vectors, similar, project)
            errors[name] = compact_in(form, some, similar, project)
        works["blend"] = lambda: blend_vectors(vectors[:, :256], vectors, 0.1)
        times = interleaved(works, rounds=5, device="cuda")
    found: dict[str, Any] = {"n": n, "encoder_ms": plain, "variants": {}}
    spread = float((some @ form.reference.T).std(dim=1).mean())
    print(f"the similarities' standard deviation within a row: {spread:.4f}")
    print("| products | us a sentence | of the encoder | largest change of a cosine |\n" + "| --- " * 4 + "|")
    for name, seconds in times.items():
        ms = 1000 * statistics.median(seconds)
        parts = errors[name].double() if name in errors else true
        error = float((parts @ parts.T - cosines).abs().max())
        found["variants"][name] = {"ms": ms, "error": error}
        print(f"| {name} | {1000 * ms / 8192:.2f} | {ms / plain:.2%} | {error:.1e} |", flush=True)
    return found


def profile(n: int) -> dict[str, Any]:
    """Say which kernels the compact form's time consists of, and how long the GPU waits."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    _, vectors, _, _ = encoded()
    form = fitted(n)
    with torch.no_grad():
        form(vectors)
        torch.cuda.synchronize()
        with record(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as recorded:
            start = time.perf_counter()
            form(vectors)
            torch.cuda.synchronize()
            wall = 1e6 * (time.perf_counter() - start)
    events: dict[str, list[float]] = {}
    for event in recorded.events() or ():
        if str(event.device_type).endswith("CUDA"):
            events.setdefault(event.name, []).append(float(event.time_range.elapsed_us()))
    ordered = sorted(events.items(), key=lambda item: -sum(item[1]))
    busy = sum(sum(times) for times in events.values())
    print(f"n = {n:,}: {wall:.0f} us with the profiler, the GPU works {busy:.0f} us")
    for name, times in ordered[:7]:
        print(
            f"  {sum(times):8.0f} us, {len(times):4d} times, {sum(times) / 8192:5.2f} a sentence: {name[:70]}"
        )
    return {"n": n, "wall_us": wall, "busy_us": busy, "us": {name: sum(times) for name, times in ordered}}


def captured() -> float:
    """Capture the kernel in a graph, as training does, change the input, and compare."""
    kernel = ranks_cuda.kernel(DEVICE)
    assert kernel
    rows = matrix(64, 10_000).clone()
    out = torch.empty_like(rows)
    plan = kernel.plan(*rows.shape)
    assert plan
    kernel.launch(rows, out, plan)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        status = kernel.launch(rows, out, plan)
    rows.copy_(torch.randn_like(rows))
    graph.replay()
    error = float((out.double() - exact(rows)).abs().max())
    print(f"replayed on other values: error {error:.1e}, refused: {bool((status < 0).any())}")
    return error


def many_values() -> float:
    """Rank more than 2^31 values in one call."""
    rows = torch.randn(22_000, 100_000, device=DEVICE)
    start = time.perf_counter()
    z = rank_vectors(rows)
    seconds = time.perf_counter() - start
    ends = torch.tensor([0, 1, 10_999, 21_473, 21_474, 21_475, 21_998, 21_999], device=DEVICE)
    error = float((z[ends].double() - exact(rows[ends])).abs().max())
    print(f"{rows.numel():,} values in {1000 * seconds:.0f} ms: error {error:.1e}")
    return error


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
    parser.add_argument("--skip", type=int, default=0, help="steps to leave out")
    options = parser.parse_args()
    if options.skip and options.json:
        result.update(json.loads(options.json.read_text()))
    deadline = began + options.seconds
    timer = threading.Timer(options.seconds, give_up)
    timer.daemon = True
    timer.start()
    works: list[tuple[str, Callable[[], Any], float]] = [
        ("the kernel", describe, 0),
        ("correctness", check, 5),
        ("calls", call_times, 5),
        ("kernel times", kernel_times, 5),
        ("the host", host_times, 2),
        ("captured", captured, 2),
        ("encoder", lambda: encoded()[3], 10),
        ("compact form, n = 10,000", partial(compact, 10_000), 5),
        ("compact form, n = 100,000", partial(compact, 100_000), 8),
        ("profile, n = 10,000", partial(profile, 10_000), 4),
        ("profile, n = 100,000", partial(profile, 100_000), 4),
        ("parts of the kernel", parts_of_the_kernel, 8),
        ("best plans", best_plans, 10),
        ("triton", triton_times, 8),
        ("many values", many_values, 5),
    ]
    for done, (name, work, seconds) in enumerate(works[options.skip :], options.skip + 1):
        step(name, work, options.json, seconds)
        restart_if_broken(done)
    print(f"\ndone after {time.perf_counter() - began:.1f} s", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
