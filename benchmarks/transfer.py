"""Score all-MiniLM-L6-v2 on the seven transfer tasks, and say how long it took.

Accuracy in per cent, by SentEval's protocol; the time to encode and the time to train and test classifiers
are told apart. Needs the development data (``../shared``, or RANKENCODER_SHARED)::

    python benchmarks/transfer.py --json benchmarks/results/transfer-minilm.json
    python benchmarks/transfer.py --tasks CR TREC
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from senteval_scores import score_transfer
from senteval_tasks import TRANSFER_TASKS, read_transfer_task
from sts import SHARED

from rankencoder.demo.encoder import bundled_encoder


def score(model: SentenceTransformer, folder: Path, name: str) -> dict[str, Any]:
    """Return the scores of a task, with the seconds to encode and to classify."""
    task = read_transfer_task(folder, name)
    start = time.perf_counter()
    vectors = model.encode(task.sentences, batch_size=64)
    encoded = time.perf_counter()
    found = score_transfer(task, lambda _: vectors)
    seconds = {"encode": encoded - start, "classify": time.perf_counter() - encoded}
    return {**found, "fingerprint": task.fingerprint, "seconds": {k: round(v, 1) for k, v in seconds.items()}}


def main() -> None:
    """Score task by task, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=SHARED / "data/senteval")
    parser.add_argument("--tasks", nargs="+", choices=TRANSFER_TASKS, default=TRANSFER_TASKS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    model = SentenceTransformer(str(bundled_encoder()))
    print("| task | accuracy | dev | F1 | encode, s | classify, s |\n|---|---|---|---|---|---|")
    results = []
    for name in options.tasks:
        found = score(model, options.data, name)
        results.append(found)
        seconds = found["seconds"]
        print(
            f"| {name} | {found['accuracy']:.2f} | {found['dev_accuracy']:.2f} | {found.get('f1', '')} "
            f"| {seconds['encode']:.0f} | {seconds['classify']:.0f} |",
            flush=True,
        )
    average = float(np.mean([found["accuracy"] for found in results]))
    total = {key: sum(found["seconds"][key] for found in results) for key in ("encode", "classify")}
    print(f"| AVG | {average:.2f} | | | {total['encode']:.0f} | {total['classify']:.0f} |")
    if options.json:
        about: dict[str, Any] = {
            "encoder": "all-MiniLM-L6-v2",
            "device": str(model.device),
            "torch": torch.__version__,
        }
        about |= {"threads": torch.get_num_threads(), "machine": platform.machine()}
        tasks = {found.pop("task"): found for found in results}
        about |= {"average": round(average, 2), "seconds": total, "tasks": tasks}
        options.json.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
