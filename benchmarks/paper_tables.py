"""The paper's tables and figures, as measured here, next to what it publishes."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from pages import MISSING, gain, shown, table
from result_runs import NAMES, POOLINGS, SYSTEMS, Runs, differences, if_any, less, profiled, scores
from senteval_tasks import TRANSFER_TASKS

from rankencoder.evaluation.sts_data import SEVEN
from rankencoder.report import paper_scores as paper

_TABLES = json.loads(Path(__file__).with_name("published_figures.json").read_text(encoding="utf-8"))
PUBLISHED: dict[str, Any] = {name: table["figures"] for name, table in _TABLES.items()}

SETS = (*SEVEN, "AVG")
UNTRAINED = {"[CLS]": 31.40, "mean": 52.57, "prompt": 67.85}
"""BERT-base before any training, mean of the seven sets, as others publish it (the prompt: PromptBERT)."""
COST = (200.0, 1.8)
"""Per cent more time: of stage 2 over stage 1, and of inference with ranks over that without (cost table)."""


def table_1(runs: Runs) -> str:
    """Return the seven sets: untrained, whitened, and E1 and E2 of three methods."""
    rows = []
    for name, title in POOLINGS.items():
        of = runs.get(f"untrained/{name}", [])
        published = UNTRAINED[title]
        for similarity, added in (("cosine", ""), ("centered -0.5", ", whitened")):
            figure = None if added else published
            rows.append(_row(f"untrained {title}{added}", partial(profiled, of, similarity), figure))
    for name, title in NAMES.items():
        of = runs.get(f"tables/{name}", [])
        for system, label in SYSTEMS.items():
            rows.append(_row(f"{title}: {label}", partial(scores, of, system), _published(title, system)))
    return if_any(("", *SETS, "seeds", "paper, AVG", "difference"), rows)


def smollm2_table(runs: Runs) -> str:
    """Return the seven sets of SmolLM2, untrained and after SimCSE."""
    rows = []
    first, trained = runs.get("smollm2/untrained", []), runs.get("smollm2/simcse", [])
    for name in ("cosine", "centered -0.25", "centered -0.5", "ranks"):
        rows.append(_row(f"untrained, {name}", partial(profiled, first, name), None))
    for name, label in SYSTEMS.items():
        rows.append(_row(f"SimCSE: {label}", partial(scores, trained, name), _published("SimCSE", name)))
    rows.append(_row("SimCSE: E1, centered −¼", partial(profiled, trained, "centered -0.25"), None))
    return if_any(("", *SETS, "seeds", "paper (BERT-base), AVG", "difference"), rows)


def _published(title: str, system: str) -> float | None:
    """Return the paper's AVG of a method's E1, or of RankEncoder on it: one run of SNCSE, else a mean."""
    if system == "E1 cosine":
        return paper.STS[title][-1]
    if system != "E2 blend 0.1":
        return None
    if title == "SNCSE":
        return paper.STS["RankEncoder (of SNCSE)"][-1]
    return paper.STS_SEEDS[f"{title} + RankEncoder"][-1][0]


def _row(title: str, values: Callable[[str], list[float]], published: float | None) -> list[str]:
    average = values("AVG")
    figure = f"{published:.2f}" if published is not None else ""
    away = less(average, published) if published is not None else ""
    return [title, *(shown(values(s)) for s in SETS), str(len(average)), figure, away]


def table_2(runs: Runs) -> str:
    """Return uniformity and alignment of base and rank vectors on STS-B test."""
    rows = []
    for name, title in NAMES.items():
        for i, space in enumerate(("base", "ranks")):
            of = [
                run["space"]["STS-B"]["E1"][space] for run in runs.get(f"tables/{name}", []) if "space" in run
            ]
            values = [[found[key] for found in of] for key in ("uniformity", "alignment")]
            pairs = zip(values, PUBLISHED["SPACE"][title][i], strict=True)
            rows.append(
                [f"{title}, {space}", *(shown(v, 2) for v in values)]
                + [cell for v, figure in pairs for cell in (f"{figure:.2f}", less(v, figure, 2))]
            )
    head = (
        "",
        "uniformity",
        "alignment",
        "paper's uniformity",
        "difference",
        "paper's alignment",
        "difference",
    )
    return if_any(head, rows)


def table_3(runs: Runs) -> str:
    """Return accuracies on the transfer tasks."""
    rows = []
    systems = (
        ("mlm/simcse", "E1 cosine", "SimCSE"),
        ("mlm/simcse-mlm", "E1 cosine", "SimCSE with MLM"),
        ("mlm/simcse-mlm", "E2 cosine", "RankEncoder of SimCSE with MLM"),
    )
    for key, system, title in systems:
        found = []
        for run in runs.get(key, []):
            of = run.get("transfer", {}).get("systems", {})
            found += [of[name] for name in (system, system.removeprefix("E1 ")) if name in of][:1]
        cells = [
            shown([f["tasks"][task]["accuracy"] for f in found if task in f["tasks"]])
            for task in TRANSFER_TASKS
        ]
        average = [f["AVG"] for f in found if f["AVG"] is not None]
        published = PUBLISHED["TRANSFER"][title][-1]
        rows.append(
            [title, *cells, shown(average), str(len(found)), f"{published:.2f}", less(average, published)]
        )
    return if_any(("", *TRANSFER_TASKS, "AVG", "seeds", "paper, AVG", "difference"), rows)


def table_4(runs: Runs, group: str = "tables") -> str:
    """Return E1 against E2 with Eq. 7, and the gain next to the paper's."""
    rows = []
    for name, title in NAMES.items():
        of = runs.get(f"{group}/{name}", [])
        if group != "tables" and not of:
            continue
        first, second = scores(of, "E1 cosine"), scores(of, "E2 blend 0.1")
        ours = differences(second, first)
        published = [paper.STS_SEEDS[key][-1] for key in (title, f"{title} + RankEncoder")]
        theirs = published[1][0] - published[0][0]
        sign = "–" if not ours else "same" if fmean(ours) * theirs > 0 else "differs"
        cells = [shown(first), shown(scores(of, "E2 cosine")), shown(second), gain(ours)]
        figures = [f"{mean:.1f} ± {spread:.1f}" for mean, spread in published]
        rows.append([title, *cells, *figures, f"{theirs:+.1f}", sign, str(len(of))])
    head = (
        "AVG",
        "E1",
        "E2",
        "E2, Eq. 7",
        "gain",
        "paper: E1",
        "paper: RankEncoder",
        "paper: gain",
        "sign",
        "seeds",
    )
    return if_any(head, rows)


def table_5(runs: Runs, group: str = "tables") -> str:
    """Return the similar pairs of STS-B."""
    rows = []
    published = list(PUBLISHED["SIMILAR_PAIRS"].values())
    for i, (name, title) in enumerate(NAMES.items()):
        of = [run for run in runs.get(f"{group}/{name}", []) if "similar-pairs" in run]
        if group != "tables" and not of:
            continue
        base: list[float] = []
        for j, (system, label) in enumerate(SYSTEMS.items()):
            ours = [run["similar-pairs"]["STS-B"]["similar"]["scores"][system] for run in of]
            base = base or ours
            figure, first = published[j][i], published[0][i]
            cells = [shown(ours), gain(differences(ours, base)) if j else ""]
            rows.append([f"{title}: {label}", *cells, f"{figure:.2f}", f"{figure - first:+.2f}" if j else ""])
    return if_any(("similar pairs of STS-B", "ours", "− E1", "paper", "paper: − E1"), rows)


def reference_table(runs: Runs) -> str:
    """Return the score of ranks by the size of the reference corpus."""
    of = runs.get("tables/simcse-references", [])
    curves = [next(iter(run["curves"].values()))["reference-size"] for run in of]
    if not curves:
        return MISSING
    last = [curve["mean"][-1] for curve in curves]
    rows = []
    for i, size in enumerate(curves[0]["x"]):
        values = [curve["mean"][i] for curve in curves]
        rows.append([f"{size:,}", shown(values, 2), gain(differences(values, last), 2)])
    return table(("reference sentences", f"ranks on {curves[0]['set']}", "− the largest"), rows)


def inference_table(runs: Runs) -> str:
    """Return AVG by λ of Eq. 7."""
    wanted = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
    rows = []
    for name, title in NAMES.items():
        for role in ("E1", "E2"):
            curves = [
                run["curves"][role]["rank-weight"]
                for run in runs.get(f"tables/{name}", [])
                if "curves" in run
            ]
            cells = [shown([c["scores"]["AVG"][c["x"].index(w)] for c in curves]) for w in wanted]
            best = [c["x"][max(range(len(c["x"])), key=c["scores"]["AVG"].__getitem__)] for c in curves]
            rows.append([f"{title}, {role}", *cells, shown(best, 2)])
    return if_any(("λ", *(f"{w:g}" for w in wanted), "best λ"), rows)


def overlap_table(runs: Runs) -> str:
    """Return by bins of SimCSE's cosine the neighbors that pairs share and the gain of ranks."""
    of = [run["neighbors"]["E1"] for run in runs.get("tables/simcse", []) if "neighbors" in run]
    rows = []
    for i in range(len(of[0]["bins"]) if of else 0):
        bins = [found["bins"][i] for found in of]
        gains = [b["gain"] for b in bins if b["gain"] is not None]
        overlap = [b["overlap"] for b in bins if b["overlap"] is not None]
        place = f"{fmean(b['from'] for b in bins):.2f} to {fmean(b['to'] for b in bins):.2f}"
        rows.append([place, f"{fmean(b['pairs'] for b in bins):.0f}", shown(overlap), gain(gains)])
    correlations = [found["correlation"] for found in of if found["correlation"] is not None]
    told = f"\n\nCorrelation of overlap and gain over bins: {shown(correlations, 2)} (the paper: positive)."
    made = table(("cosine", "pairs", "shared of 100 neighbors", "gain of ranks"), rows)
    return made + told if rows else made


def cost_table(runs: Runs) -> str:
    """Return what stage 2 and ranks cost, in per cent, of runs that had the GPU for themselves."""
    rows = []
    alone = {key: f"SimCSE, {key.removeprefix('speed/')}" for key in runs if key.startswith("speed/")}
    for key, title in alone.items():
        of = [run for run in runs.get(key, []) if len(run.get("stages", [])) > 1 and "cost" in run]
        steps = [[run["stages"][i]["milliseconds_per_step"] for run in of] for i in (0, 1)]
        targets = [run["seconds"].get("train: targets", 0.0) for run in of]
        cost = [run["cost"]["E2"] for run in of]
        model, form = ([found[key] for found in cost] for key in ("model_ms", "form_ms"))
        more = [100 * (b / a - 1) for a, b in zip(*steps, strict=True)]
        slower = [100 * b / a for a, b in zip(model, form, strict=True)]
        cells = [
            shown(steps[0]),
            shown(steps[1]),
            gain(more, 0),
            shown(targets),
            shown(model, 3),
            shown(form, 4),
        ]
        rows.append([title, *cells, gain(slower)])
    head = (
        "",
        "stage 1, ms a step",
        "stage 2, ms a step",
        "more, %",
        "E1's vectors, s",
        "encoding, ms a sentence",
        "ranks, ms a sentence",
        "more, %",
    )
    made = if_any(head, rows)
    told = "" if made == MISSING else "\n\nThe paper: training +{:.0f}%, inference +{}%.".format(*COST)
    return made + told
