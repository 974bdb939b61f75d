"""Time a training step of stage 1 and of stage 2, which also ranks the batch against the reference corpus.

Random vectors stand in for E1's: the time does not depend on them. Needs the development data (``../shared``,
or RANKENCODER_SHARED)::

    python benchmarks/steps.py --steps 300 --references 10000 100000 --json benchmarks/results/steps.json
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sts import SHARED, wiki_sentences

from rankencoder.training.backbone import load_backbone
from rankencoder.training.config import make_config
from rankencoder.training.data import Sentences, store_sentences
from rankencoder.training.methods import find_method
from rankencoder.training.stage import train_stage
from rankencoder.training.targets import Targets


def random_vectors(number: int, dimension: int) -> np.ndarray:
    """Return unit vectors with a spectrum as encoders have it."""
    random = np.random.default_rng(0)
    spread = random.standard_normal((dimension, dimension)) * np.linspace(3, 0.1, dimension)
    vectors = (random.standard_normal((number, dimension)) @ spread).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def step_time(settings: dict[str, Any], sentences: Sentences, targets: Targets | None) -> dict[str, Any]:
    """Train a stage and return what its record says."""
    backbone = load_backbone(settings["backbone"])
    method = find_method(settings["method"])
    config = make_config(settings).resolved(backbone, method)
    with tempfile.TemporaryDirectory() as folder:
        number = 1 if targets is None else 2
        stage = train_stage(
            config, method(), sentences.rows, Path(folder), number=number, targets=targets, progress=False
        )
    return {name: stage.about[name] for name in ("milliseconds_per_step", "steps", "device")}


def main() -> None:
    """Time both stages, print ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbone", default=str(SHARED / "backbone"))
    parser.add_argument("--method", default="simcse")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--references", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--no-graphs", action="store_true", help="without CUDA graphs")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    settings = {
        "backbone": options.backbone,
        "method": options.method,
        "batch_size": options.batch_size,
        "max_steps": options.steps,
        "cuda_graphs": not options.no_graphs,
    }
    texts = wiki_sentences(options.batch_size * options.steps + 1)
    with tempfile.TemporaryDirectory() as folder:
        sentences = store_sentences(texts, Path(folder), column=None, progress=False)
        dimension = load_backbone(options.backbone).dimension
        first = step_time(settings, sentences, None)
        print(f"stage 1: {first['milliseconds_per_step']:.2f} ms a step on {first['device']}", flush=True)
        result: dict[str, Any] = {"settings": settings, "machine": platform.platform(), "stage 1": first}
        teacher = random_vectors(len(sentences), dimension).astype(np.float16)
        for number in options.references:
            targets = Targets([teacher], [random_vectors(number, dimension)])
            second = step_time(settings, sentences, targets)
            ratio = second["milliseconds_per_step"] / first["milliseconds_per_step"]
            print(
                f"stage 2, n = {number:,}: {second['milliseconds_per_step']:.2f} ms, {ratio:.3f} of stage 1"
            )
            result[f"stage 2, n = {number}"] = {**second, "ratio": ratio}
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
