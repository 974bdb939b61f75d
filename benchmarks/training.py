"""Train E1 and E2 with several seeds and score them on the seven STS sets.

Spearman's correlation ×100 ("all"), mean ± standard deviation over seeds. E1 and E2 of a run have the same
seed, so that E1 is also the control: the same training without ranks. Weights are chosen on STS-B dev,
nothing else. Needs the development data (``../shared``, or RANKENCODER_SHARED)::

    python benchmarks/training.py --seeds 1 2 3 --output results --json summary.json -- --method simcse

What follows ``--`` is given to ``rankencoder train``; what is written are the results of ``rankencoder
evaluate``, for ``rankencoder report``, and a summary of them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paper_sections import measure_sections
from sts import SHARED

from rankencoder.evaluation.results import read_results, rows
from rankencoder.evaluation.sts_data import read_sts
from rankencoder.evaluation.subjects import open_subjects
from rankencoder.io.storage import cache_root
from rankencoder.training.backbones.backbone import load_backbone
from rankencoder.training.methods import find_method

STS = SHARED / "data/sts-raw"


def command(*arguments: object) -> None:
    """Run rankencoder."""
    subprocess.run([sys.executable, "-m", "rankencoder", *map(str, arguments)], check=True)


def save_untrained(folder: Path, options: list[str]) -> None:
    """Write the encoder that training starts from."""
    value = dict(zip(options[::2], options[1::2], strict=False))
    backbone = load_backbone(value.get("--backbone", "bert-base-uncased"))
    find_method(value.get("--method", "simcse"))().encoder(backbone).save_pretrained(str(folder))


def summary(folder: Path, models: Sequence[Path], data: str | Path, corpus: Path) -> dict[str, Any]:
    """Return the scores of each system and run, those of power −¼, and what the spaces look like."""
    results = read_results([folder])
    powers: dict[str, Any] = {}
    spaces = {}
    for path in models:
        model = open_subjects(path, corpus=corpus, cache=cache_root("vectors"), batch_size=256)
        found = measure_sections(model, read_sts(data), ("curves", "space"))
        spaces[model.label] = found["space"]
        for role, curves in found["curves"].items():
            i = curves["power"]["x"].index(-0.25)
            for how in ("plain", "centered"):
                of = {name: values[i] for name, values in curves["power"][how].items()}
                powers.setdefault(model.label, {})[f"{role} {how}".strip()] = of
    about = {key: results[0][key] for key in ("versions", "machine")}
    scores = {f"{row.label}, {row.system}": row.values for row in rows(results)}
    return {**about, "spearman_all": scores, "power_-0.25": powers, "space": spaces}


def main() -> None:
    """Train, score, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--corpus", type=Path, default=SHARED / "data/wiki/wiki1m-part0.txt.xz")
    parser.add_argument("--work", type=Path, default=Path("/tmp/rankencoder-training"))
    parser.add_argument("--output", type=Path, default=Path("evaluation"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--data", default=STS, help="for rankencoder evaluate")
    given = sys.argv[1:]
    cut = given.index("--") if "--" in given else len(given)
    settings, extra = parser.parse_args(given[:cut]), given[cut + 1 :]
    runs = []
    for seed in settings.seeds:
        runs.append(settings.work / f"seed-{seed}")
        if not (runs[-1] / "rankencoder").is_dir():  # finished already
            chosen = ("--dev", STS / "STSB/dev.tsv", "--seed", seed, "--overwrite")
            command("train", settings.corpus, "-o", runs[-1], *chosen, *extra)
    untrained = settings.work / "untrained"
    save_untrained(untrained, extra)
    where = ("--data", settings.data, "-o", settings.output, "--batch-size", 256)
    command("evaluate", *runs, untrained, "--corpus", settings.corpus, *where)
    if settings.json:
        scored = summary(settings.output, [*runs, untrained], settings.data, settings.corpus)
        found = {"options": extra, "seeds": settings.seeds, **scored}
        settings.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
