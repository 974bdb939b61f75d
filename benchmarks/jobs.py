"""Many trainings, each a process of its own, several at a time; what is finished is not done again."""

from __future__ import annotations

import argparse
import fcntl
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

from sts import SHARED, wiki_lines

from rankencoder.io.storage import new_file
from rankencoder.training.run_outputs import rank_share

BACKBONE = SHARED / "backbone"
STS = SHARED / "data/sts-raw"
COMMON: dict[str, Any] = {
    "backbone": str(BACKBONE),
    "dev": [str(STS / "STSB/dev.tsv")],
    "method": "simcse",  # without one the recipe is the best preset's, of another method and a second teacher
    "epochs": 1.0,
    "reference_size": 10_000,
    "save_steps": 1_000_000,  # nothing is resumed here
    "workers": 2,
}
"""Settings of every training, unless it says otherwise."""

LOGGED = ("contrastive", "weighted_rank", "pairs", "target", "listnet", "dropped_negatives")


@dataclass
class Job:
    """A piece of work with a name and a seed.

    :param settings: Of `rankencoder.train`.
    :param needs: Keys of the jobs that must be finished before it.
    :param group: The group of experiments that it belongs to, if there are several.
    :param about: What else is to be known to do it.
    """

    name: str
    seed: int
    settings: dict[str, Any]
    needs: list[str] = field(default_factory=list)
    group: str = ""
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Its group, name and seed: where its result is kept."""
        return str(Path(self.group) / f"{self.name}-{self.seed}")


def add_arguments(parser: argparse.ArgumentParser, *, work: Path, output: Path) -> None:
    """Add what every runner can be told."""
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--sentences", type=int, default=64_000)
    parser.add_argument("--steps", type=int, help="stop each stage after so many, for a try")
    parser.add_argument("--lanes", type=int, default=4, help="trainings at a time")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin nothing after so many")
    parser.add_argument("--work", type=Path, default=work)
    parser.add_argument("--output", type=Path, default=output)


def corpus_file(work: Path, sentences: int) -> Path:
    """Return a file of the first sentences of Wikipedia's sample; it is written once."""
    path = work / f"wiki-{sentences}.txt"
    if not path.exists():
        work.mkdir(parents=True, exist_ok=True)
        with new_file(path) as new, new.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in islice(wiki_lines(), sentences))
    return path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait until no other process does the same; the lock ends with its process, however that ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def do(job: Job, script: str, folder: Path, result: Path) -> bool:
    """Do a job in a process of its own, whose output goes beside the folder; say how it went."""
    told = {**vars(job), "folder": str(folder), "result": str(result)}
    log = folder.with_name(f"{folder.name}.log")
    result.parent.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    with log.open("w") as written:
        command = [sys.executable, script, "--job", json.dumps(told)]
        done = subprocess.run(command, stdout=written, stderr=written, check=False)
    took = time.perf_counter() - began
    how = "done" if done.returncode == 0 else f"FAILED, see {log}"
    print(f"{time.strftime('%X')} {job.key}: {how} in {took:.0f} s", flush=True)
    return done.returncode == 0


def run_all(jobs: list[Job], script: str, work: Path, output: Path, lanes: int, until: float) -> list[str]:
    """Run what is not finished, each when what it needs is; return the keys of what was left.

    :param script: The program that does one job: it is given ``--job`` and the job as JSON, with the folder
        to work in and the file to write.
    :param until: Begin nothing after this (`time.perf_counter`).
    """
    futures: dict[str, Future[bool]] = {}

    def run(job: Job) -> bool:
        file = output / f"{job.key}.json"
        if file.exists():
            return True
        ready = all(futures[key].result() for key in job.needs if key in futures)
        missing = [key for key in job.needs if key not in futures and not (output / f"{key}.json").exists()]
        if not ready or missing:
            return False
        with locked(work / f"{job.key}.lock"):
            if file.exists():
                return True  # someone else has done it in the meantime
            return time.perf_counter() < until and do(job, script, work / job.key, file)

    with ThreadPoolExecutor(lanes) as pool:
        for job in jobs:
            futures[job.key] = pool.submit(run, job)
    left = [key for key, future in futures.items() if not future.result()]
    print(f"not finished: {', '.join(left)}" if left else "all finished", flush=True)
    return left


def summary(history: list[dict[str, Any]]) -> dict[str, float]:
    """Return what stage 2 logged, on average, and how often the rank loss was the larger of the two."""
    entries = [entry for entry in history if entry.get("stage", 2) == 2 and "contrastive" in entry]
    if not entries:
        return {}
    means = {key: fmean(e[key] for e in entries) for key in LOGGED if key in entries[0]}
    return {**means, "rank_larger": rank_share(entries) or 0.0}
