"""Put the tables of ``results/distill`` into ``results/README.md``, between its marks.

``python benchmarks/distill_table.py --print`` prints them all instead.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from distill_experiments import EXPERIMENTS
from pages import replaced, shown, table

from rankencoder.evaluation.sts_data import SEVEN

RESULTS = Path(__file__).parents[1] / "results"
SETS = (*SEVEN, "AVG")
DEV = ("STS-B dev", "SemRel dev")
AGREEMENT = "agreement"
TRIES = (AGREEMENT, *DEV, "AVG")
TITLES = {
    "minilm": "all-MiniLM-L6-v2",
    "e5-small": "e5-small",
    "paraphrase-minilm-l3": "paraphrase-MiniLM-L3-v2",
    "mpnet": "all-mpnet-base-v2",
    "bge-small": "bge-small-en-v1.5",
    "gte-small": "gte-small",
    "potion": "potion-base-8M",
}
STUDENTS = {
    "minilm-3": "taught by 3",
    "minilm-6": "taught by 6",
    "minilm-6-lr-2e-4-epochs-4": "taught by 6, four passes at 2e-4",
}
VARIANTS = {
    "minilm-3": "the default: 1e-4",
    "minilm-3-lr-2e-4": "2e-4",
    "minilm-3-lr-5e-5": "5e-5",
    "minilm-3-timed": "3e-5",
    "minilm-3-lr-3e-5-dropout": "3e-5, dropout on",
    "minilm-3-lr-3e-5-batch-512": "3e-5, batches of 512",
    "minilm-3-lr-3e-5-epochs-4": "3e-5, four passes",
    "minilm-3-epochs-4": "1e-4, four passes",
}
SIX_VARIANTS = {
    "minilm-6": "the default: 1e-4, one pass",
    "minilm-6-lr-2e-4": "2e-4",
    "minilm-6-epochs-4": "1e-4, four passes",
    "minilm-6-lr-2e-4-epochs-4": "2e-4, four passes",
    "minilm-6-weighted": "mpnet, bge-small and gte-small count twice",
    "minilm-5": "without paraphrase-MiniLM-L3-v2",
}
LAYER_VARIANTS = {
    "layers-minilm-3-similarities": "0: similarities alone",
    "layers-minilm-3-vectors-1": "1",
    "layers-minilm-3-vectors-10": "10",
    "layers-minilm-3": "the default: 100",
    "layers-mpnet-6-vectors-10": "mpnet: 10",
    "layers-mpnet-6": "mpnet: the default: 100",
    "layers-mpnet-6-vectors-1000": "mpnet: 1000",
}
WHOLE = {"minilm-3": "3 of 6 layers", "mpnet-6": "6 of 12 layers"}
PEERS = {
    "start-{}": "untaught",
    "mse-{}": "MSELoss",
    "layers-{}": "`distill`",
    "layers-{}-dropout": "`distill`, `dropout` on",
    "layers-{}-committee": "`distill`, several teachers",
    "layers-{}-committee-vectors-10": "the same, `vector_weight` 10",
}

Result = dict[str, Any]
Runs = dict[str, list[Result]]


def read(folder: Path = RESULTS / "distill") -> Runs:
    """Return the runs of each name, by seed."""
    found: Runs = defaultdict(list)
    for file in sorted(folder.glob("*.json")):
        result = json.loads(file.read_text(encoding="utf-8"))
        found[result["name"]].append(result)
    return found


def scores(runs: Iterable[Result], name: str) -> list[float]:
    """Return a set's score of each run that has it, or its agreement with its teachers."""
    if name == AGREEMENT:
        return [100 * run[name]["after"]["spearman"] for run in runs if name in run]
    return [run["scores"][name] for run in runs if name in run["scores"]]


def cell(of: Sequence[Result], start: Sequence[Result], name: str) -> str:
    """Return a set's score with its difference to the start's, where that is another encoder."""
    own, before = scores(of, name), scores(start, name)
    if not own or not before or start[0]["name"] == of[0]["name"]:
        return shown(own, 2)
    return f"{shown(own, 2)} ({fmean(own) - fmean(before):+.2f})"


def row(title: str, runs: Runs, name: str, columns: Sequence[str]) -> list[list[str]]:
    """Return the row of some runs, or none if there are no runs."""
    of = runs.get(name, [])
    start = runs.get(f"encoder-{EXPERIMENTS[name].start}", [])
    return [[title, *(cell(of, start, column) for column in columns), str(len(of))]] if of else []


def encoders_table(runs: Runs) -> str:
    """Return the teachers as they are."""
    columns = (*SETS, *DEV, "QQP dev")
    rows = [line for name in TITLES for line in row(TITLES[name], runs, f"encoder-{name}", columns)]
    return table(("", *columns, "seeds"), rows)


def students_table(runs: Runs) -> str:
    """Return all-MiniLM-L6-v2 before and after it was taught, with the difference in every set."""
    columns = (*SETS, *DEV, "QQP dev")
    rows = row("all-MiniLM-L6-v2", runs, "encoder-minilm", columns)
    rows += [line for name, title in STUDENTS.items() for line in row(title, runs, name, columns)]
    return table(("", *columns, "seeds"), rows)


def tries_table(runs: Runs, titles: dict[str, str], head: str) -> str:
    """Return the same student with other settings."""
    rows = [line for name, title in titles.items() for line in row(title, runs, name, TRIES)]
    return table((head, *TRIES, "seeds"), rows)


def questions_table(runs: Runs) -> str:
    """Return what text of a domain gains there: duplicate questions."""
    columns = ("QQP dev", "AVG")
    names = {
        "encoder-minilm": "all-MiniLM-L6-v2",
        "minilm-3": "taught on Wikipedia",
        "minilm-3-questions": "taught on Wikipedia and questions",
        "minilm-3-only-questions": "taught on questions alone, four passes",
    }
    rows = [line for name, title in names.items() for line in row(title, runs, name, columns)]
    return table(("", *columns, "seeds"), rows)


def layers_table(runs: Runs) -> str:
    """Return encoders with fewer layers, taught by `distill` and by MSELoss."""
    columns = (*SETS, *DEV)
    rows: list[list[str]] = []
    for name, title in WHOLE.items():
        whole = EXPERIMENTS[f"layers-{name}"].start
        rows += row(TITLES[whole], runs, f"encoder-{whole}", columns)
        for what, told in PEERS.items():
            if (key := what.format(name)) in EXPERIMENTS:
                rows += row(f"{title}: {told}", runs, key, columns)
    return table(("", *columns, "seeds"), rows)


def static_table(runs: Runs) -> str:
    """Return static encoders beside the teacher of two of them."""
    columns = (*SETS, *DEV, "QQP dev")
    names = {
        "encoder-minilm": "all-MiniLM-L6-v2",
        "encoder-potion": "potion-base-8M",
        "model2vec": "model2vec's `distill` of all-MiniLM-L6-v2",
        "static": "`distill --student static` of all-MiniLM-L6-v2",
        "static-epochs-4": "the same, four passes at 1e-3",
    }
    rows = [line for name, title in names.items() for line in row(title, runs, name, columns)]
    return table(("", *columns, "seeds"), rows)


def seconds_table(runs: Runs) -> str:
    """Return how long a run takes that has the device for itself, its teachers' vectors included."""
    rows = []
    for name, title in STUDENTS.items():
        for run in runs.get(f"{name}-timed", []):
            seconds = run["seconds"]
            parts = [seconds["distill"], *(seconds[f"distill: {of}"] for of in ("teachers", "teaching"))]
            rows.append([title, f"{run['sentences']:,}", *(f"{part:.0f} s" for part in parts)])
    return table(("", "sentences", "in all", "teachers' vectors", "teaching"), rows)


TABLES: dict[str, Callable[[Runs], str]] = {
    "distill encoders": encoders_table,
    "distill students": students_table,
    "distill variants": lambda runs: tries_table(runs, VARIANTS, "learning rate"),
    "distill six": lambda runs: tries_table(runs, SIX_VARIANTS, "six teachers"),
    "distill questions": questions_table,
    "distill layers": layers_table,
    "distill vectors": lambda runs: tries_table(runs, LAYER_VARIANTS, "weight of vectors"),
    "distill static": static_table,
    "distill seconds": seconds_table,
}


def updated(text: str, runs: Runs | None = None) -> str:
    """Return a page with its tables made anew."""
    found = read() if runs is None else runs
    return replaced(text, {name: make(found) for name, make in TABLES.items()})


if __name__ == "__main__":
    page = RESULTS / "README.md"
    if "--print" in sys.argv:
        print("\n\n".join(f"{name}\n\n{make(read())}" for name, make in TABLES.items()))
    else:
        page.write_text(updated(page.read_text(encoding="utf-8")), encoding="utf-8")
