"""Put the tables of ``results/methods`` into ``results/README.md``, between its marks."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

from pages import gain, line, replaced, shown

from rankencoder.evaluation.sts_data import SEVEN

RESULTS = Path(__file__).parents[1] / "results"
SETS = (*SEVEN, "AVG")
PAPER = {
    "simcse": 76.25,
    "promptbert": 78.54,
    "sncse": 78.97,
    "consert": 72.74,
    "esimcse": 78.27,
    "dclr": 77.22,
    "diffcse": 78.49,
}
"""AVG on bert-base-uncased with 1,000,000 sentences, as published (ConSERT: on the STS sets' own texts)."""

Runs = dict[str, list[dict[str, Any]]]


def read() -> Runs:
    """Return the runs of each name, by seed."""
    found: Runs = defaultdict(list)
    for file in sorted((RESULTS / "methods").glob("*.json")):
        result = json.loads(file.read_text())
        found[result["name"]].append(result)
    return found


def values(runs: list[dict[str, Any]], system: str, name: str) -> list[float]:
    """Return a set's score of each run."""
    found = []
    for run in runs:
        scores = {label.rpartition(", ")[2]: of for label, of in run["scores"].items()}
        found.append(scores[system][name])
    return found


def methods_table(runs: Runs) -> str:
    """Return E1 and E2 of every method."""
    rows = [line("", "", *SETS, "seeds", "paper"), line(*["---"] * (len(SETS) + 4))]
    for name in (*PAPER, "consert-lr"):
        of = runs.get(name, [])
        for system in ("E1", "E2") if of else ():
            scores = [shown(values(of, f"{system} cosine", s)) for s in SETS]
            first = (name, PAPER.get(name)) if system == "E1" else ("", None)
            paper = f"{first[1]:.2f}" if first[1] else ""
            rows.append(line(first[0], system, *scores, str(len(of)), paper))
    return "\n".join(rows)


def stage_table(runs: Runs) -> str:
    """Return what ranks and Eq. 7 made of E1 and E2 (AVG), and how large the two losses of stage 2 were."""
    head = ("", "E1 ranks", "E1 Eq. 7", "E2 Eq. 7", "l_cl", "λ·l_r", "λ·l_r > l_cl", "pairs a batch")
    rows = [line(*head), line(*["---"] * len(head))]
    for name in (*PAPER, "consert-lr"):
        of = runs.get(name, [])
        if not of:
            continue
        scores = [shown(values(of, s, "AVG")) for s in ("E1 ranks", "E1 blend 0.1", "E2 blend 0.1")]
        logged = {key: fmean(run["stage_2"][key] for run in of) for key in of[0]["stage_2"]}
        batch = of[0]["config"]["batch_size"]
        pairs = f"{logged['pairs']:,.0f} ({logged['pairs'] / (batch * (batch - 1)):.0%})"
        losses = (f"{logged['contrastive']:.4f}", f"{logged['weighted_rank']:.4f}")
        rows.append(line(name, *scores, *losses, f"{logged['rank_larger']:.0%} of the time", pairs))
    return "\n".join(rows)


RECIPES = {
    "sum": "l_cl + l_r in place of max(0.05·l_r, l_cl)",
    "target-cosine": "the same, target: E1's cosine",
    "target-power": "the same, target: centered power −¼",
    "teachers-seeds": "the same, teachers: E1 of all seeds",
    "teachers-methods": "the same, teachers: SimCSE, PromptBERT, SNCSE",
    "neighbors": "the same, batches with 3 neighbors of a sentence",
    "rounds": "the same, up to 3 rounds",
    "listnet": "the paper's and ListNet",
    "listmle": "the paper's and ListMLE",
}


def recipes_table(runs: Runs) -> str:
    """Return SimCSE's E2 by each recipe, and its gain over the paper's and over the sum, seed by seed."""
    measured = [name for name in RECIPES if runs.get(name)]
    if not measured:
        return "Not measured yet."
    head = ("E2", *SETS, "− the paper's", "− the sum's", "pairs a batch", "seeds")
    rows = [line(*head), line(*["---"] * len(head))]
    paper = {run["seed"]: value for run, value in _averages(runs["simcse"], "E2 cosine")}
    total = {run["seed"]: value for run, value in _averages(runs.get("sum", []), "cosine")}
    for name in ("simcse", *measured):
        of, system = runs[name], "E2 cosine" if name == "simcse" else "cosine"
        gains = [
            [value - base[run["seed"]] for run, value in _averages(of, system) if run["seed"] in base]
            for base in (paper, total)
        ]
        told = [gain(values) if values else "" for values in gains]
        pairs = f"{fmean(run['stage_2']['pairs'] for run in of):,.0f}"
        scores = [shown(values(of, system, s)) for s in SETS]
        title = RECIPES.get(name, "the paper's recipe")
        rows.append(line(title, *scores, *told, pairs, str(len(of))))
    return "\n".join(rows)


def _averages(runs: list[dict[str, Any]], system: str) -> list[tuple[dict[str, Any], float]]:
    return list(zip(runs, values(runs, system, "AVG"), strict=True))


TABLES = {"methods": methods_table, "stage 2": stage_table, "recipes": recipes_table}


def updated(text: str) -> str:
    """Return a page with its tables made anew."""
    runs = read()
    return replaced(text, {name: make(runs) for name, make in TABLES.items()})


if __name__ == "__main__":
    page = RESULTS / "README.md"
    page.write_text(updated(page.read_text()))
