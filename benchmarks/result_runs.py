"""The runs that `experiments.py` wrote, and figures out of them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from pages import MISSING, table

RESULTS = Path(__file__).parents[1] / "results"
NAMES = {"simcse": "SimCSE", "promptbert": "PromptBERT", "sncse": "SNCSE"}
POOLINGS = {"cls": "[CLS]", "mean": "mean", "prompt": "prompt"}
SYSTEMS = {
    "E1 cosine": "E1",
    "E1 ranks": "E1's ranks",
    "E2 cosine": "E2",
    "E2 blend 0.1": "E2, Eq. 7 (λ = 0.1)",
}
"""Without training: E, RankEncoder_E; with it: retrain, retrain-inf."""

ONCE_MORE = ("recipe/best",)
"""Runs whose E1 is the same training as that of another (e1/consert-lr)."""

Result = dict[str, Any]
Runs = dict[str, list[Result]]


def read(folder: Path = RESULTS / "runs") -> Runs:
    """Return the runs of each group and name, by seed."""
    found: Runs = defaultdict(list)
    for file in sorted(folder.glob("*/*.json")):
        result = json.loads(file.read_text(encoding="utf-8"))
        seconds = result.get("seconds", {})
        for new, old in (("train: work/targets", "train: targets"), ("train: sentences", "train: read")):
            if new in seconds:
                seconds[old] = seconds.pop(new)
        found[f"{result['group']}/{result['name']}"].append(result)
    return found


def scores(runs: Sequence[Result], system: str, name: str = "AVG") -> list[float]:
    """Return a set's score of each run that has it."""
    return [run["scores"][system][name] for run in runs if name in run.get("scores", {}).get(system, {})]


def profiled(runs: Sequence[Result], similarity: str, name: str = "AVG") -> list[float]:
    """Return a set's score of each run by a similarity of its profile."""
    of = [profile for run in runs for profile in run.get("profiles", {}).values()]
    return [profile["scores"][similarity][name] for profile in of]


def differences(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """Return a − b run by run, where both were measured."""
    return [x - y for x, y in zip(a, b, strict=True)] if len(a) == len(b) else []


def less(ours: Sequence[float], published: float, digits: int = 1) -> str:
    """Return the difference from a published figure."""
    return f"{fmean(ours) - published:+.{digits}f}" if ours else "–"


def if_any(head: Sequence[str], rows: list[list[str]]) -> str:
    """Return a table, unless nothing in it was measured."""
    return table(head, rows) if any(any(c.isdigit() for c in row[1]) for row in rows) else MISSING


def encoders(runs: Runs) -> list[tuple[Result, str, Result]]:
    """Return every profile, with the run that it is of and its role there; no training twice."""
    every = [run for key, of in runs.items() if key not in ONCE_MORE for run in of]
    return [(run, role, found) for run in every for role, found in run.get("profiles", {}).items()]


def gain_of(profile: Result, similarity: str) -> float:
    """Return what a similarity gains over the plain cosine, in AVG."""
    scores = profile["scores"]
    return float(scores[similarity]["AVG"] - scores["cosine"]["AVG"])


SEEN: dict[str, Callable[[Result], float]] = {
    "share of the first direction": lambda profile: profile["features"]["first_share"],
    "share of the first ten": lambda profile: profile["features"]["first_ten_share"],
    "effective rank": lambda profile: profile["features"]["effective_rank"],
    "uniformity": lambda profile: profile["features"]["uniformity"],
    "mean norm": lambda profile: profile["features"]["mean_norm"],
    "quality: AVG by cosine": lambda profile: profile["scores"]["cosine"]["AVG"],
}
"""What can be said of an encoder by its reference vectors; and, last, by labels."""
