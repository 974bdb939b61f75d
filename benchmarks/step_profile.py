"""Profile training steps on a GPU: what a step takes, what the GPU does in it, and how long it waits.

Trains stage 1 for a few steps by the code of ``rankencoder train``, on a BERT of BERT-base size with random
weights, in several ways, and prints a table and the longest kernels of each::

    PYTHONPATH=src:benchmarks python benchmarks/step_profile.py --json step-profile.json
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
import traceback
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from speed import memory
from speed.models import model_folder, texts
from speed.training import settings, stage_step
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile
from transformers import TrainerCallback

from rankencoder.training import execution
from rankencoder.training.loop import packing, stage
from rankencoder.training.loop import trainer as trainer_module
from rankencoder.training.sentences import store_sentences

_TIMED = 10  # steps
_PROFILED = 10


class Watch(TrainerCallback):
    """Times the last steps of a training, then profiles some more."""

    def __init__(self, warm: int, timed: int) -> None:
        self.warm, self.timed = warm, timed
        self.profiler: Any = None
        self.profile = True
        self.losses: list[float] = []
        self.marks: list[float] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start and stop the clock and the profiler."""
        step = state.global_step
        if not self.profile:
            return
        if self.warm <= step <= self.warm + self.timed and (step - self.warm) % _TIMED == 0:
            torch.cuda.synchronize()
            self.marks.append(time.perf_counter())
        if step == self.warm + self.timed:
            self.profiler = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
            self.profiler.__enter__()
        elif step == self.warm + self.timed + _PROFILED:
            torch.cuda.synchronize()
            self.profiler.__exit__(None, None, None)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Note the losses."""
        if "loss" in logs:
            self.losses.append(logs["loss"])


def busy(profiler: Any) -> dict[str, Any]:
    """Return how long the GPU computes in a step, its longest kernels, and the host's longest operations."""
    spans: list[tuple[int, int]] = []
    kernels: Counter[str] = Counter()
    for event in profiler.profiler.kineto_results.events():
        if event.device_type() == DeviceType.CUDA and event.duration_ns():
            spans.append((event.start_ns(), event.end_ns()))
            kernels[event.name()[:90]] += event.duration_ns()
    total, end = 0, 0
    for start, stop in sorted(spans):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    host = sorted(profiler.key_averages(), key=lambda row: -row.self_cpu_time_total)[:12]
    return {
        "gpu_ms": total / 1e6 / _PROFILED,
        "kernels": len(spans) / _PROFILED,
        "longest": {name: ns / 1e6 / _PROFILED for name, ns in kernels.most_common(22)},
        "host": {row.key[:60]: row.self_cpu_time_total / 1e3 / _PROFILED for row in host},
    }


def train(batch: int, watch: Watch, steps: int, *, packed: bool, **given: Any) -> None:
    """Train some steps."""
    _, sentences = texts(batch * steps + 1)
    trainer = trainer_module.EncoderTrainer

    def watched(*args: Any, **kwargs: Any) -> Any:
        made = trainer(*args, **kwargs)
        made.add_callback(watch)
        return made

    usual = packing.can_pack
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(stage, "EncoderTrainer", watched),
        mock.patch.object(execution, "can_pack", usual if packed else lambda *_: False),
    ):
        stored = store_sentences(sentences, Path(folder), column=None, progress=False)
        stage_step({**settings("BERT-base", "cuda", batch, steps), **given}, stored, None)


def run(batch: int, *, warm: int = 12, timed: int = 100, **given: Any) -> dict[str, Any]:
    """Train some steps; return their time and what it consists of."""
    watch = Watch(warm, timed)
    train(batch, watch, warm + timed + _PROFILED + 2, **given)
    # the median: a batch of a rare size has a graph captured
    ms = 1000 * statistics.median(b - a for a, b in pairwise(watch.marks)) / _TIMED
    return {"ms": ms, "losses": watch.losses, "peak": memory.peak("cuda"), **busy(watch.profiler)}


def compare_losses(batch: int, steps: int = 50) -> dict[str, Any]:
    """Train with hardly any dropout, plainly and in the fastest way, and compare the losses of all steps.

    (Without dropout in its configuration a backbone would be given some.)
    """
    losses = []
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(model_folder("BERT-base")[1], folder, dirs_exist_ok=True)
        path = Path(folder, "config.json")
        config = json.loads(path.read_text("utf-8"))
        config |= dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 1e-12)
        path.write_text(json.dumps(config), encoding="utf-8")
        for way in ({"packed": False, "cuda_graphs": False}, WAYS["packed, compiled"]):
            watch = Watch(0, 0)
            watch.profile = False
            train(batch, watch, steps, backbone=folder, logging_steps=1, **way)
            losses.append(watch.losses)
    plain, fast = losses
    return {
        "plain": plain,
        "fast": fast,
        "largest": max(abs(a - b) for a, b in zip(plain, fast, strict=True)),
    }


WAYS: dict[str, dict[str, Any]] = {
    "padded": {"packed": False},
    "packed": {"packed": True},
    "padded, compiled": {"packed": False, "compile": True},
    "packed, compiled": {"packed": True, "compile": True},
}


def main() -> None:
    """Profile each way with each batch size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--ways", nargs="+", default=list(WAYS))
    parser.add_argument(
        "--losses", action="store_true", help="compare those of the fastest way with plain ones"
    )
    parser.add_argument("--set", default="{}", help="further settings of a training, as JSON")
    parser.add_argument("--longest", type=int, default=14, help="kernels to print")
    args = parser.parse_args()
    found: dict[str, Any] = {}
    if args.losses:
        found["losses"] = compare_losses(64)
        print("largest difference of the losses of 50 steps:", found["losses"]["largest"])
        print([round(x, 4) for x in found["losses"]["fast"][::7]], flush=True)
    for batch in args.batches:
        for name in args.ways:
            began = time.perf_counter()
            try:
                row = run(batch, **{**WAYS[name], **json.loads(args.set)})
            except Exception:
                print(f"B = {batch}, {name}: failed\n{traceback.format_exc()[-1500:]}", flush=True)
                continue
            row["seconds"] = time.perf_counter() - began
            found[f"{batch}, {name}"] = row
            print(
                f"B = {batch}, {name}: {row['ms']:.2f} ms a step, GPU {row['gpu_ms']:.2f} ms in "
                f"{row['kernels']:.0f} kernels, {row['peak'] / 1e9:.1f} GB, {row['seconds']:.0f} s in all, "
                f"losses {[round(x, 4) for x in row['losses'][:6]]}"
            )
            for kind in ("longest", "host"):
                for key, ms in list(row[kind].items())[: args.longest if kind == "longest" else 6]:
                    print(f"    {ms:7.3f} ms {kind:8s} {key}", flush=True)
            if args.json:
                args.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
