"""Train E1 and E2 with several seeds and score them on the seven STS sets.

Spearman's correlation ×100 ("all"), mean ± standard deviation over seeds. E2 of each seed has the E1 of the
seed before as its teacher, so that the E1 with E2's own seed is the control: the same training without ranks.
Weights are chosen on STS-B dev, nothing else. Needs the development data (``../shared``, or
RANKENCODER_SHARED)::

    python benchmarks/training.py --seeds 1 2 3 --json benchmarks/results/training.json -- --method simcse

What follows ``--`` is given to ``rankencoder train``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sts import SHARED, Pairs, pairwise, read_sts, spearman, sts_sets

from rankencoder import RankEncoder
from rankencoder.blend import blend
from rankencoder.encoders import Encoder
from rankencoder.forms import fit_form
from rankencoder.training.backbone import load_backbone
from rankencoder.training.methods import find_method


def train(output: Path, seed: int, base: Path | None, corpus: Path, options: list[str]) -> dict[str, Any]:
    """Run ``rankencoder train`` and return its record."""
    stage = ["--base-encoder", str(base), "--stage2-seed", str(seed)] if base else ["--only-base"]
    dev = str(SHARED / "data/sts-raw/STSB/dev.tsv")
    command = [sys.executable, "-m", "rankencoder", "train", str(corpus), "-o", str(output), "--dev", dev]
    subprocess.run([*command, "--seed", str(seed), *stage, "--overwrite", *options], check=True)
    return dict(json.loads((output / "rankencoder-run.json").read_text()))


def score(model: Any, sets: dict[str, Pairs], reference: torch.Tensor | None) -> dict[str, dict[str, float]]:
    """Return the scores of an encoder by cosine and, given reference vectors, by what ranks make of it."""
    encode = Encoder(model, batch_size=256)
    rows: dict[str, dict[str, float]] = {}
    for name, (scores, a, b) in sets.items():
        x, y = encode(a), encode(b)
        cosine = (x * y).sum(dim=1)
        found = {"cosine": cosine}
        if reference is not None:
            ranks = pairwise(fit_form("exact", reference), x, y)
            found["ranks"] = ranks
            found["Eq. 7, λ = 0.1"] = blend(ranks, cosine, 0.1)
            found["centred power −¼"] = pairwise(fit_form("linear", reference, power=-0.25), x, y)
        for label, values in found.items():
            rows.setdefault(label, {})[name] = spearman(scores, values.cpu())
    for row in rows.values():
        row["AVG"] = float(np.mean([value for name, value in row.items() if name != "STSB dev"]))
    return rows


def untrained(options: list[str]) -> Any:
    """Return the encoder that training starts from."""
    value = dict(zip(options[::2], options[1::2], strict=False))
    backbone = load_backbone(value.get("--backbone", "bert-base-uncased"))
    return find_method(value.get("--method", "simcse"))().encoder(backbone)


def main() -> None:
    """Train, score, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--corpus", type=Path, default=SHARED / "data/wiki/wiki1m-part0.txt.xz")
    parser.add_argument("--work", type=Path, default=Path("/tmp/rankencoder-training"))
    parser.add_argument("--json", type=Path)
    given = sys.argv[1:]
    cut = given.index("--") if "--" in given else len(given)
    settings, extra = parser.parse_args(given[:cut]), given[cut + 1 :]
    sets = {"STSB dev": read_sts("STSB", "dev.tsv"), **sts_sets()}
    result: dict[str, Any] = {"options": extra, "seeds": settings.seeds, "records": [], "runs": {}}

    def keep(label: str, rows: dict[str, dict[str, float]]) -> None:
        for name, row in rows.items():
            result["runs"].setdefault(f"{label}, {name}", []).append(row)

    keep("untrained", score(untrained(extra), sets, None))
    bases = {seed: settings.work / f"base-{seed}" for seed in settings.seeds}
    records = {seed: train(folder, seed, None, settings.corpus, extra) for seed, folder in bases.items()}
    for i, seed in enumerate(settings.seeds):
        output = settings.work / f"rank-{seed}"
        teacher = bases[settings.seeds[i - 1]] / "base"
        record = train(output, seed, teacher, settings.corpus, extra)
        second = RankEncoder.load(output / "rankencoder")
        vectors = torch.from_numpy(second.reference.vectors).to(second.encoder.device)
        keep("E2", score(second.encoder.model, sets, vectors))
        first = Encoder(bases[seed] / "base", batch_size=256)
        keep("E1 (the control)", score(first.model, sets, first(second.reference.sentences)))
        for of in (records[seed], record):
            of.pop("history", None)
            result["records"].append(of)
        shutil.rmtree(output)
        print_table(result["runs"], [*sets, "AVG"])
        if settings.json:
            settings.json.write_text(json.dumps(result, indent=1) + "\n")


def print_table(runs: dict[str, list[dict[str, float]]], columns: list[str]) -> None:
    """Print what there is of a table so far."""
    print("| | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    for label, rows in runs.items():
        cells = (np.array([row[column] for row in rows]) for column in columns)
        print(
            f"| {label} | " + " | ".join(f"{c.mean():.2f} ± {c.std():.2f}" for c in cells) + " |", flush=True
        )


if __name__ == "__main__":
    main()
