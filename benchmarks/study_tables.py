"""What goes beyond the paper: a better E1, other recipes, when which similarity helps, and the speed."""

from __future__ import annotations

import json
from statistics import fmean, quantiles
from typing import Any

from pages import MISSING, gain, shown, table
from result_runs import (
    RESULTS,
    SEEN,
    Result,
    Runs,
    differences,
    encoders,
    gain_of,
    profiled,
    scores,
)
from scipy.stats import spearmanr
from when import table as rules


def e1_table(runs: Runs) -> str:
    """Return every E1 that was tried, the best on STS-B dev first."""
    rows = []
    for key, of in runs.items():
        if not key.startswith(("e1/", "tables/")) or not of[0].get("profiles", {}).get("E1"):
            continue
        found = [run["profiles"]["E1"] for run in of]
        space = [profile["space"]["STS-B"] for profile in found]
        dev = [profile["scores"]["cosine"]["STS-B dev"] for profile in found]
        numbers = [shown([s[name] for s in space], 2) for name in ("uniformity", "alignment")]
        rank = shown([s["effective_rank"] for s in space], 0)
        half = shown(profiled(of, "centered -0.25"))
        config = of[0]["config"]
        told = (
            f"{config['learning_rate']:.0e}, {config['batch_size']}, {config['options'].get('temperature')}"
        )
        cells = [
            shown(dev),
            shown(profiled(of, "cosine")),
            half,
            shown(profiled(of, "ranks")),
            *numbers,
            rank,
        ]
        rows.append((fmean(dev), [key, told, f"{of[0]['sentences']:,}", *cells, str(len(of))]))
    head = (
        "",
        "lr, batch, τ",
        "sentences",
        "STS-B dev",
        "AVG",
        "centered −¼",
        "ranks",
        "uniformity",
        "alignment",
        "effective rank",
        "seeds",
    )
    return table(head, [row for _, row in sorted(rows, key=lambda pair: -pair[0])])


def second_stage_table(runs: Runs, group: str) -> str:
    """Return E2 of SimCSE by the weight of the rank loss, or by the pairs that it learns."""
    base = {run["seed"]: run for run in runs.get("tables/simcse", [])}
    rows = []
    if base:
        first = scores(list(base.values()), "E2 cosine")
        rows.append(
            ["the paper's: max, 0.05, [0.5, 0.8]", shown(first), *_stage(list(base.values())), str(len(base))]
        )
        rows[0].insert(2, "")
    for key in sorted(runs, key=_number):
        if not key.startswith(f"{group}/") and not (group == "tau" and key == "lambda/sum-10"):
            continue
        of = runs[key]
        same = [base[run["seed"]] for run in of if run["seed"] in base]
        away = differences(scores(of, "E2 cosine"), scores(same, "E2 cosine"))
        config = of[0]["config"]
        title = (
            f"{config['combine']}, {config['rank_loss_weight']:g}, [{config['lower']:g}, {config['upper']:g}]"
        )
        rows.append([title, shown(scores(of, "E2 cosine")), gain(away), *_stage(of), str(len(of))])
    head = ("E2", "AVG", "− the paper's", "λ·l_r > l_cl", "pairs a batch", "seeds")
    return table(head, rows) if len(rows) > 1 else MISSING


def _number(key: str) -> tuple[str, float]:
    name, _, last = key.rpartition("-")
    try:
        return name, float(last)
    except ValueError:
        return key, 0.0


def _stage(runs: list[Result]) -> list[str]:
    logged = [run["stage_2"] for run in runs if run.get("stage_2")]
    if not logged:
        return ["–", "–"]
    larger, pairs = (fmean(of.get(key, 0.0) for of in logged) for key in ("rank_larger", "pairs"))
    return [f"{larger:.0%} of the time", f"{pairs:,.0f}"]


_OWN_E1 = {
    "cls": "tables/simcse",
    "mean": "e1/mean",
    "prompt": "e1/prompt",
    "prompt-b512": "e1/prompt-b512-lr1e-4",
    "consert": "e1/consert-lr",
    "best": "e1/consert-lr",
}
_SAME_POOLING = {**_OWN_E1, "consert": "e1/mean", "best": "e1/mean", "prompt": "", "prompt-b512": ""}
"""E1 that a recipe is compared with, by how its name begins; SimCSE has no prompt."""


def recipe_table(runs: Runs) -> str:
    """Return E2 by other recipes, the best on STS-B dev first, with their gains over E1."""
    rows = []
    for key, of in runs.items():
        if not key.startswith("recipe/"):
            continue
        name = key.removeprefix("recipe/")
        first = name.partition("-teachers")[0].partition("-self")[0]
        gains = [gain(_gains(of, runs.get(base[first], []))) for base in (_SAME_POOLING, _OWN_E1)]
        dev = scores(of, "E2 cosine", "STS-B dev")
        half = profiled([run for run in of if "E2" in run["profiles"]], "centered -0.25")
        cells = [shown(dev), shown(scores(of, "E2 cosine")), *gains, shown(half), str(len(of))]
        rows.append((fmean(dev), [name, *cells]))
    head = ("E2", "STS-B dev", "AVG", "− SimCSE, same pooling", "− its own E1", "AVG, centered −¼", "seeds")
    return table(head, [row for _, row in sorted(rows, key=lambda pair: -pair[0])])


def _gains(runs: list[Result], base: list[Result]) -> list[float]:
    """Return E2's AVG less that of another run's E1, of the same seed."""
    by_seed = {run["seed"]: profiled([run], "cosine")[0] for run in base}
    both = [run for run in runs if run["seed"] in by_seed]
    return [scores([run], "E2 cosine")[0] - by_seed[run["seed"]] for run in both]


def speed_table(runs: Runs) -> str:
    """Return steps and memory at two sizes, and what a million sentences take, or would take."""
    rows = []
    for key, of in runs.items():
        if not key.startswith("speed/"):
            continue
        run = of[0]
        times = [f"{stage['milliseconds_per_step']:.1f}" for stage in run["stages"]]
        busy = f"{quantiles(run['utilisation'], n=10)[-1]:.0f}%" if run.get("utilisation") else "–"
        memory = f"{run['peak_gpu_bytes'] / 2**30:.1f} GiB" if "peak_gpu_bytes" in run else "–"
        seconds = [f"{value:.0f}" if value else "–" for value in million_seconds(run)]
        how = ", compiled" if run["config"].get("compile") is True or is_whole_million(run) else ""
        how += ", measured" if is_whole_million(run) else ""
        rows.append([key.removeprefix("speed/") + how, *times, *seconds, memory, busy])
    head = (
        "",
        "stage 1, ms a step",
        "stage 2, ms a step",
        "stage 1, s",
        "E1's vectors, s",
        "stage 2, s",
        "all, s",
        "memory",
        "utilization, 9 in 10 seconds at most",
    )
    return table(head, rows)


def is_whole_million(run: Result) -> bool:
    """Say whether a run trained on a million sentences, and not on some steps of them."""
    return bool(run["sentences"] >= 1_000_000 and not run["config"]["max_steps"])


def million_seconds(run: dict[str, Any]) -> tuple[float, float | None, float, float | None]:
    """Return a million sentences' seconds in stage 1, for vectors, in stage 2, and in all, or estimates."""
    million, seconds, config = 1_000_000, run["seconds"], run["config"]
    if is_whole_million(run):
        first, second = (stage["seconds"] for stage in run["stages"])
        return first, seconds["train: targets"], second, seconds["train"]
    steps = million / config["batch_size"]
    first, second = (steps * stage["milliseconds_per_step"] / 1000 for stage in run["stages"])
    if run["sentences"] < 250_000:  # most is the time to load
        return first, None, second, None
    references = config["reference_size"]
    read = seconds.get("train: read", 0.0) * million / run["sentences"]
    vectors = seconds["train: targets"] * (million + references) / (run["sentences"] + references)
    return first, vectors, second, read + first + vectors + second


def seen_table(runs: Runs) -> str:
    """Return how what can be seen of an encoder goes with what ranks and centered power −¼ gain."""
    of = [found for _, _, found in encoders(runs)]
    if not of:
        return MISSING
    rows = []
    for label, value in SEEN.items():
        seen = [value(found) for found in of]
        both = ([gain_of(found, name) for found in of] for name in ("ranks", "centered -0.25"))
        rows.append([label, *(f"{spearmanr(seen, gains).statistic:+.2f}" for gains in both)])
    return table((f"Spearman over {len(of)} encoders", "gain of ranks", "gain of centered −¼"), rows)


def when_table(_: Runs) -> str:
    """Return how the rules for choosing a similarity do."""
    file = RESULTS / "when.json"
    if not file.exists():
        return MISSING
    found = json.loads(file.read_text(encoding="utf-8"))
    number = f"{len(found['encoders'])} encoders of {len(set(found['families']))} families."
    return f"{rules(found)}\n\n{number} {found['verdict']}"
