"""Train E1 by several methods, and at every look record dev scores and what is seen without labels.

Which unlabelled quantity chooses weights as well as STS-B dev does is found offline, by `labelfree_rules.py`.
Needs the development data (``../shared``, or RANKENCODER_SHARED)::

    python benchmarks/labelfree.py --lanes 6                                  # one NVIDIA H200
    python benchmarks/labelfree.py --backbone experiments-work/smollm2 --only simcse --sentences 32000

Each training is a process of its own; what is finished is not done again. Results are
``BACKBONE/NAME-SEED.json``, with ``.npz`` beside them: cosines of fixed pairs at every look.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path
from typing import Any

from experiment_groups import CONSERT, MEAN, PROMPT
from jobs import BACKBONE, COMMON, STS, Job, add_arguments, corpus_file, run_all
from labelfree_sample import Sample, draw_sample
from sts import SHARED

LOOKS = 20
DEV = {
    "stsb": STS / "STSB/dev.tsv",
    "sick": STS / "SICKR/trial.tsv",
    "semrel": SHARED / "data/pairs/semrel2024_en_dev.tsv",
}
FAMILIES: dict[str, dict[str, Any]] = {
    "consert": CONSERT,
    "mean": MEAN,
    "prompt": PROMPT,
    "cls": {"method": "simcse"},
    "esimcse": {"method": "esimcse"},
    "mean-t0.1": {"method": "simcse", "options": {"pooling": "mean", "temperature": 0.1}},
    "consert-lr5e-5": {**CONSERT, "learning_rate": 5e-5},
}
"""A rule is fixed on some of these, and tested on the others."""

ROBUST: dict[str, dict[str, Any]] = {
    "consert-half": {**CONSERT, "epochs": 0.5},
    "consert-quarter": {**CONSERT, "epochs": 0.25},
    "consert-lr1e-5": {**CONSERT, "learning_rate": 1e-5},
    "consert-lr5e-6": {**CONSERT, "learning_rate": 5e-6},
    "prompt-half": {**PROMPT, "epochs": 0.5},
    "mean-half": {**MEAN, "epochs": 0.5},
    "esimcse-half": {"method": "esimcse", "epochs": 0.5},
}
"""Gentler recipes: what last weights are like without any choice."""

OTHERS: dict[str, dict[str, Any]] = {
    "diffcse": {"method": "diffcse", "options": {"generator": str(BACKBONE)}},
    "simcse": {"method": "simcse"},
    "prompteol": {"method": "prompteol"},
}
"""By name only: slow, or for causal backbones."""

KNOWN = {**FAMILIES, **ROBUST, **OTHERS}


def make_jobs(options: argparse.Namespace) -> list[Job]:
    """Return the trainings: the first seed of all, then the second; gentler recipes last, with one seed."""
    names = options.only or [*FAMILIES, *ROBUST]
    jobs = [make_job(name, seed, options) for seed in options.seeds for name in names if name not in ROBUST]
    return jobs + [make_job(name, options.seeds[0], options) for name in names if name in ROBUST]


def make_job(name: str, seed: int, options: argparse.Namespace) -> Job:
    """Return the training of a family, with evenly spread looks."""
    settings = {**KNOWN[name], **json.loads(options.set)}
    from rankencoder.training.methods import find_method
    from rankencoder.training.methods.method import Family

    kind: Any = "causal" if name in ("simcse", "prompteol") else "masked"
    known = {
        "epochs": 1.0,
        **find_method(settings["method"]).defaults(Family(kind=kind)),
        **COMMON,
        **settings,
    }
    steps = options.steps or int(options.sentences * known["epochs"] / known["batch_size"])
    settings |= {
        "backbone": str(options.backbone),
        "only_base": True,
        "patience": 0,
        "eval_steps": max(1, steps // options.looks),
        "max_steps": steps,
    }
    return Job(name, seed, settings, group=options.backbone.name)


def run_job(job: dict[str, Any]) -> None:
    """Train, and write what was seen at every look, and of averages of their weights."""
    import numpy as np
    from labelfree_looks import Recorder

    import rankencoder
    from rankencoder.evaluation.sts_data import SEVEN, read_sts
    from rankencoder.training import execution

    began = time.perf_counter()
    sample, tests = Sample.read(Path(job["about"]["sample"])), read_sts(STS, SEVEN)
    recorder = Recorder(sample, DEV, job["about"]["pairs"], tests)
    vars(execution)["make_evaluator"] = lambda *_: recorder  # in the place of the one for dev files
    settings = {**COMMON, **job["settings"], "seed": job["seed"]}
    folder, result = Path(job["folder"]), Path(job["result"])
    run = rankencoder.train(job["about"]["corpus"], folder, overwrite=True, progress=False, **settings)
    trained = time.perf_counter()
    if job["about"]["averages"]:
        recorder.look_at_averages()
    record = run.record
    losses = [
        {key: entry[key] for key in ("step", "loss", "contrastive") if key in entry}
        for entry in record["history"]
        if "loss" in entry
    ]
    found = {
        **{key: job[key] for key in ("name", "seed", "group", "settings")},
        **{key: record[key] for key in ("versions", "machine", "stages")},
        "sentences": job["about"]["sentences"],
        "looks": recorder.looks,
        "losses": losses,
        "seconds": {"train": round(trained - began, 1), "averages": round(time.perf_counter() - trained, 1)},
    }
    tables: dict[str, Any] = {
        key: np.stack([look[key] for look in recorder.cosines]) for key in recorder.cosines[0]
    }
    with result.with_suffix(".npz").open("wb") as file:
        np.savez_compressed(file, **tables)
    result.write_text(json.dumps(found, indent=1) + "\n")
    shutil.rmtree(folder)


def main() -> None:
    """Run one job, or all that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser, work=Path("experiments-work/labelfree"), output=Path("results/labelfree"))
    parser.add_argument("--only", nargs="+", choices=KNOWN, metavar="NAME", help=", ".join(KNOWN))
    parser.add_argument("--backbone", type=Path, default=BACKBONE)
    parser.add_argument("--set", default="{}", help="settings of all jobs, as JSON, for a try")
    parser.add_argument("--looks", type=int, default=LOOKS, help="in each training")
    parser.add_argument("--no-averages", action="store_true", help="leave averages of weights out")
    parser.add_argument("--sample", type=int, default=1_000, help="sentences to look at without labels")
    parser.add_argument("--pairs", type=int, help="of each dev set, for a try; by default all")
    options = parser.parse_args()
    if options.job:
        run_job(json.loads(options.job))
        return
    options.work.mkdir(parents=True, exist_ok=True)
    work, options.backbone = options.work.resolve(), options.backbone.resolve()
    corpus, sample = (
        corpus_file(work, options.sentences),
        work / f"sample-{options.sentences}-{options.sample}.json",
    )
    if not sample.exists():
        draw_sample(corpus, options.sample).write(sample)
    jobs = make_jobs(options)
    for job in jobs:
        job.about |= {"corpus": str(corpus), "sample": str(sample)}
        job.about |= {"sentences": options.sentences, "pairs": options.pairs}
        job.about["averages"] = not options.no_averages
    until = time.perf_counter() + 60 * options.minutes
    run_all(jobs, __file__, work, options.output.resolve(), options.lanes, until)


if __name__ == "__main__":
    main()
