"""Run the paper's experiments, and those on when rank vectors help and which recipe is best.

Each run is a process of its own, several at a time; what is finished is not done again, and what a run needs
of another group is run before it. Needs the development data (``../shared``, or RANKENCODER_SHARED)::

    python benchmarks/experiments.py --plan --lanes 6            # what there is, and how long it may take
    python benchmarks/experiments.py untrained tables --lanes 6  # one NVIDIA H200
    python benchmarks/experiments.py recipe --only mean-teachers-power --seeds 1 2 3

Weights and settings are chosen on STS-B dev alone. Results are ``results/runs/GROUP/NAME-SEED.json``; the
tables and plots of ``results/README.md`` are made of them by ``python benchmarks/result_tables.py``. SmolLM2
is expected in the folder ``smollm2`` of ``--work`` (`gguf_backbone.py` makes it).
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import time
from pathlib import Path

from experiment_groups import groups
from experiment_job import run_job
from jobs import Job, add_arguments, corpus_file, run_all


def selected(options: argparse.Namespace) -> list[Job]:
    """Return the jobs that are asked for, and before them those that they need."""
    known = groups()
    asked = {name: known[name] for name in options.groups or known}
    jobs: dict[str, Job] = {}
    every = {
        job.key: job
        for group in known.values()
        for seed in sorted({1, 2, 3, *options.seeds})
        for job in group.make(seed)
    }

    def add(job: Job) -> None:
        for key in job.needs:
            if not (options.output / f"{key}.json").exists():
                add(every[key])
        jobs.setdefault(job.key, job)

    for group in asked.values():
        seeds = options.seeds or list(range(1, group.seeds + 1))
        for seed in seeds:
            for job in group.make(seed):
                if any(fnmatch.fnmatch(job.name, pattern) for pattern in options.only):
                    job.settings |= json.loads(options.set)
                    add(job)
    return list(jobs.values())


def show_plan(jobs: list[Job], output: Path, lanes: int) -> None:
    """Print the jobs of each group, those that are done, and how many minutes the rest may take."""
    total = 0.0
    for name in dict.fromkeys(job.group for job in jobs):
        of = [job for job in jobs if job.group == name]
        left = [job for job in of if not (output / f"{job.key}.json").exists()]
        minutes = sum(job.about["lane_seconds"] for job in left) / lanes / 60
        total += minutes
        print(f"{name}: {len(left)} of {len(of)} to do, about {minutes:.1f} minutes with {lanes} lanes")
        for job in left:
            print(f"  {job.key}  {job.about['lane_seconds']} s  {json.dumps(job.settings)}")
    print(f"all: about {total:.1f} minutes; a lane's seconds are those with six lanes on one H200")


def prepare(jobs: list[Job], options: argparse.Namespace) -> None:
    """Tell each job where to work and what to read."""
    for job in jobs:
        job.about.setdefault("sentences", options.sentences)
        if options.sentences != 64_000:  # a try
            job.about["sentences"] = options.sentences
            job.settings["reference_size"] = min(1_000, options.sentences)
        job.about["work"] = str(options.work)
        job.about["corpus"] = str(corpus_file(options.work, job.about["sentences"]))
        if options.steps and job.about["kind"] in ("train", "speed"):
            job.settings["max_steps"] = options.steps


def main() -> None:
    """Run one job, or all that are asked for, or say what they are."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser, work=Path("experiments-work"), output=Path("results/runs"))
    parser.set_defaults(seeds=[])
    parser.add_argument("groups", nargs="*", help="by default all: " + ", ".join(groups()))
    parser.add_argument("--only", nargs="+", default=["*"], help="jobs of these names, * matching anything")
    parser.add_argument(
        "--set", default="{}", help="settings of all jobs of these groups, as JSON, for a try"
    )
    parser.add_argument("--plan", action="store_true", help="say what would be done, and do nothing")
    options = parser.parse_args()
    if options.job:
        run_job(json.loads(options.job))
        return
    options.work, options.output = options.work.resolve(), options.output.resolve()
    if unknown := set(options.groups) - set(groups()):
        parser.error(f"no such group: {', '.join(sorted(unknown))}")
    jobs = selected(options)
    if options.plan:
        show_plan(jobs, options.output, options.lanes)
        return
    prepare(jobs, options)
    run_all(
        jobs,
        __file__,
        options.work,
        options.output,
        options.lanes,
        time.perf_counter() + 60 * options.minutes,
    )


if __name__ == "__main__":
    main()
