"""Score the demo's task: teacher, static student before and after teaching, and static peers.

The task is that of ``rankencoder demo``: find the docstrings of 1,000 functions of the standard library by
their names, none of them being in the text that students learn from. Offline, on a CPU; needs the encoders
that `pypi_encoders.py` makes, and model2vec with skeletoken (installed apart: pip would take older
transformers for it)::

    python benchmarks/demo_task.py --encoders ../encoders --seeds 1 2 3

Results are ``results/demo/demo-SEED.json``. The teacher encodes the text once for all seeds. ``--dev``
leaves out other 700 functions and finds those, to choose settings by: ``--set epochs=20``.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the command line has it

import numpy as np
import torch
from experiment_job import write_result
from mse_peer import distill_model2vec

from rankencoder.demo import docstrings
from rankencoder.demo.docstrings import Function
from rankencoder.demo.encoder import bundled_encoder
from rankencoder.demo.retrieval import score_encoders
from rankencoder.distillation.agreement import measure_speed, megabytes
from rankencoder.distillation.distiller import distill
from rankencoder.encoders import Encoder
from rankencoder.provenance import provenance

RESULTS = Path(__file__).parents[1] / "results/demo"
FUNCTIONS, DEV = 1000, 700


class RememberingEncoder(Encoder):
    """An encoder that encodes no text twice."""

    def __init__(self, source: Path) -> None:
        super().__init__(source, batch_size=128)
        self.known: dict[str, torch.Tensor] = {}

    def raw(self, sentences: Sequence[str], *, progress: bool = False) -> torch.Tensor:
        """Encode the sentences that are new."""
        new = [sentence for sentence in dict.fromkeys(sentences) if sentence not in self.known]
        if new:
            self.known.update(zip(new, super().raw(new, progress=progress).clone(), strict=True))
        return torch.stack([self.known[sentence] for sentence in sentences])


def read_task(dev: bool) -> tuple[list[Function], list[str]]:
    """Return the functions to find, and the text to learn from."""
    library = docstrings.standard_library()
    found = docstrings.functions(library)
    tasks = docstrings.spread_functions(found, FUNCTIONS)
    if not dev:
        return tasks, docstrings.training_text(library, tasks)
    chosen = docstrings.spread_functions([one for one in found if one not in set(tasks)], DEV)
    return chosen, docstrings.training_text(library, [*tasks, *chosen])


def run_seed(args: argparse.Namespace, seed: int, teacher: RememberingEncoder) -> dict[str, Any]:
    """Distill with one seed, score everything, and return the record."""
    tasks, text = read_task(args.dev)
    settings: dict[str, Any] = {name: float(value) for name, value in (one.split("=") for one in args.set)}
    load = os.getloadavg()
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run = distill(
            text, folder / "run", teacher=teacher, student="static", keep_start=True, seed=seed, **settings
        )
        models = {"untaught": folder / "run/start", "taught": run.encoder}
        if not args.dev:
            models["potion-base-8M"] = args.encoders / "potion"
            models["model2vec"] = distill_model2vec(bundled_encoder(), 256, folder / "model2vec")
        encoders = {"all-MiniLM-L6-v2": teacher} | {name: Encoder(path) for name, path in models.items()}
        results = score_encoders(encoders, tasks)
    timed = [task.purpose for task in tasks]
    rows = {}
    for result, encoder in zip(results, encoders.values(), strict=True):
        plain = Encoder(cast(Any, encoder.model))  # one that remembers nothing
        rows[result.name] = {
            "first": result.first,
            "mrr": result.reciprocal_rank,
            "to_teacher": list(result.gain),
            "sentences_per_second": measure_speed(plain, timed),
            "megabytes": megabytes(plain.model),
        }
    record = {"name": "demo", "seed": seed, "settings": settings, "functions": len(tasks), "text": len(text)}
    about = {"load": list(load), "seconds": {"teaching": run.record["seconds"]["teaching"]}}
    return record | about | {"agreement": run.record["agreement"], "scores": rows, **provenance()}


def main() -> None:
    """Run the seeds and print the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--encoders", type=Path, default=Path("../encoders"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--dev", action="store_true", help="find other functions, to choose settings by")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings of distill")
    args = parser.parse_args()
    teacher = RememberingEncoder(bundled_encoder())
    records = []
    for seed in args.seeds:
        records.append(run_seed(args, seed, teacher))
        if not args.dev:
            write_result(RESULTS / f"demo-{seed}.json", records[-1], args.encoders)
    for name, first in records[0]["scores"].items():
        mrr = np.array([record["scores"][name]["mrr"] for record in records])
        nearest = np.mean([record["scores"][name]["first"] for record in records])
        speed = np.mean([record["scores"][name]["sentences_per_second"] for record in records])
        print(
            f"{name:18} first {nearest:.1%}  MRR {mrr.mean():.4f} ± {mrr.std():.4f}  "
            f"{speed:,.0f} sentences/s  {first['megabytes']:.1f} MB"
        )


if __name__ == "__main__":
    main()
