"""Put what simulated sittings came to into ``results/README.md``.

Between its marks::

python benchmarks/thresholds_table.py
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pages
from threshold_scores import SETS
from thresholds import LOOKS

RESULTS = Path(__file__).parents[1] / "results"
Cell = dict[str, Any]


def read() -> list[Cell]:
    """Return all cells of the study."""
    return [json.loads(path.read_text("utf-8")) for path in sorted((RESULTS / "thresholds").glob("*.json"))]


def yardsticks() -> dict[tuple[str, str, float], Cell]:
    """Return what ``threshold_bound.py`` found, by encoder, set and precision."""
    found = json.loads((RESULTS / "threshold-bound.json").read_text("utf-8"))
    return {(cell["encoder"], cell["set"], cell["target"]): cell for cell in found}


def goals(cells: list[Cell]) -> str:
    """Return the figures that the goals are about: on sets for development, and on those held out."""
    rows = []
    for name, is_held in (("development", False), ("held out", True)):
        of = [c["looks"] for c in cells if c["way"] == "chosen" and ("held out" in c["set"]) == is_held]
        looks = [look for cell in of for look in cell.values()]
        covered = np.array([[look["covered_precision"], look["covered_recall"]] for look in looks])
        inside = (covered >= 0.93) & (covered <= 0.97)
        broken = np.array([look["broken"] for look in looks])
        given, wrong = (fmean(cell["120"][it] for cell in of) for it in ("made", "broken"))
        figures = [covered.mean(), inside.mean(), (covered < 0.93).mean(), covered.min()]
        figures += [broken.mean(), broken.max(), given, wrong / given]
        rows.append([name, f"{covered.size:,}", *(f"{100 * figure:.1f}" for figure in figures)])
    head = ["sets", "intervals", "covered", "within 93 and 97", "below 93", "lowest", "broken", "worst cell"]
    return pages.table([*head, "given, 120", "broken of these"], rows)


def fixed(cells: list[Cell]) -> str:
    """Return precision and recall of thresholds without labels: lowest and highest of all encoders."""
    found, rows = yardsticks(), []
    for name in SETS:
        of = {key[0]: cell["fixed"] for key, cell in found.items() if key[1:] == (name, 0.8)}
        row = [name]
        for at, figure in product(("0.8", "0.9"), (0, 1)):
            values = [one[at][figure] for one in of.values()]
            row.append(f"{min(values):.2f} to {max(values):.2f}")
        row.append(" / ".join(f"{value:.2f}" for value in of["potion"]["0.9"]))
        for target in (0.8, 0.9):
            ours = [c for c in cells if (c["way"], c["set"], c["target"]) == ("chosen", name, target)]
            given, broken = (fmean(c["looks"]["120"][it] for c in ours) for it in ("made", "broken"))
            row += [f"{100 * given:.0f}", f"{100 * (1 - broken / given):.0f}"]
        rows.append(row)
    head = ["set", "0.8: precision", "recall", "0.9: precision", "recall", "semhash: precision / recall"]
    head += [f"`label`, {target}: {figure}" for target in (0.8, 0.9) for figure in ("given", "kept")]
    return pages.table(head, rows)


def coverage(cells: list[Cell]) -> str:
    """Return how often 95% intervals hold the truth: mean over cells, lowest and highest cell."""
    chosen = [cell for cell in cells if cell["way"] == "chosen"]
    rows = []
    for name in SETS:
        of = [cell for cell in chosen if cell["set"] == name]
        for figure in ("precision", "recall") if of else ():
            shares = [[fmean(cell["looks"][str(look)][f"covered_{figure}"]) for cell in of] for look in LOOKS]
            texts = [f"{100 * fmean(s):.1f} ({100 * min(s):.1f} to {100 * max(s):.1f})" for s in shares]
            rows.append([name, figure, str(len(of)), *texts])
    return pages.table(["set", "interval of", "cells", *(f"{look} answers" for look in LOOKS)], rows)


def promises(cells: list[Cell]) -> str:
    """Return how often promises are made and broken, and what recall they keep, by set and precision."""
    rows = []
    for name in SETS:
        for target in (0.8, 0.9):
            of = [c for c in cells if (c["way"], c["set"], c["target"]) == ("chosen", name, target)]
            reached = [cell for cell in of if cell["looks"]["120"]["oracle"] >= 0.05]
            if not of:
                continue
            row = [name, f"{target:g}", f"{len(reached)} of {len(of)}"]
            row += [_percent(of, lambda cell, at=str(look): cell["looks"][at]["made"]) for look in LOOKS]
            for look in LOOKS:
                row.append(_percent(of, lambda cell, at=str(look): cell["looks"][at]["broken"]))
            row.append(f"{100 * max(c['looks'][str(look)]['broken'] for c in of for look in LOOKS):.1f}")
            for look in LOOKS:
                row.append(_percent(reached, lambda cell, at=str(look): _kept(cell["looks"][at])))
            rows.append(row)
    head = ["set", "precision", "reachable", *(f"given, {look}" for look in LOOKS)]
    head += [*(f"broken, {look}" for look in LOOKS), "worst cell"]
    return pages.table([*head, *(f"recall kept, {look}" for look in LOOKS)], rows)


def bounds(cells: list[Cell]) -> str:
    """Return the recall that is kept at 120 answers beside what is possible, by set and precision."""
    found = yardsticks()
    rows, all_of = [], list[tuple[float, float, float]]()
    for name, target in product(SETS, (0.8, 0.9)):
        of = [
            (_kept(cell["looks"]["120"]), best["one"], best["strata"])
            for cell in cells
            if (cell["way"], cell["set"], cell["target"]) == ("chosen", name, target)
            and (best := found[cell["encoder"], name, target]["looks"]["120"])["oracle"] >= 0.05
        ]
        all_of += of
        rows.append([name, f"{target:g}", *_bound_figures(of)])
    head = ["set", "precision", "cells", "recall kept", "best single threshold", "bound", "bound below 80"]
    return pages.table(head, [*rows, ["all", "", *_bound_figures(all_of)]])


def _bound_figures(of: list[tuple[float, float, float]]) -> list[str]:
    means = [f"{100 * fmean(shares):.0f}" for shares in zip(*of, strict=True)]
    return [str(len(of)), *means, f"{sum(bound < 0.8 for *_, bound in of)} of {len(of)}"]


def ways(cells: list[Cell]) -> str:
    """Return the width of the interval of precision, by how questions are chosen and answered."""
    rows = []
    for encoder, name in sorted({(c["encoder"], c["set"]) for c in cells if c["way"] == "random"}):
        of = {
            c["way"]: c["looks"]
            for c in cells
            if (c["encoder"], c["set"], c["target"]) == (encoder, name, 0.8)
        }
        if len(of) < 3:
            continue
        widths = [[of[way][str(look)]["width"][0] for look in LOOKS] for way in ("chosen", "random")]
        needed = answers_needed(widths[1], widths[0][1])
        wrong = of["chosen, 5% wrong"]["120"]
        covered = fmean(wrong["covered_precision"])
        best = yardsticks()[encoder, name, 0.8]["looks"]["120"]
        figures = [f"{width:.3f}" for row in widths for width in row]
        figures += [f"{needed:.0f}", f"{120 * best['gain']:.0f}", f"{100 * best['above']:.0f}"]
        rows.append([encoder, name, *figures, f"{100 * covered:.1f}", f"{100 * wrong['broken']:.1f}"])
    looks = [f"{way}, {look}" for way in ("chosen", "random") for look in LOOKS]
    more = [
        "random answers as good as 120",
        "best draw",
        "pairs above",
        "5% wrong: covered",
        "broken",
    ]
    return pages.table(["encoder", "set", *looks, *more], rows)


def answers_needed(widths: list[float], wanted: float) -> float:
    """Return how many answers have a width, which falls with the root of their number."""
    slope, offset = np.polyfit(np.log(LOOKS), np.log(widths), 1)
    return float(np.exp((np.log(wanted) - offset) / slope))


def _kept(look: Cell) -> float:
    return float(look["recall"] / look["oracle"])


def _percent(cells: list[Cell], figure: Callable[..., float]) -> str:
    return f"{100 * fmean(map(figure, cells)):.1f}" if cells else "–"


def updated(page: str) -> str:
    """Return the page with these tables made anew."""
    cells = read()
    made = {"coverage": coverage(cells), "promises": promises(cells), "answers": ways(cells)}
    made |= {"bounds": bounds(cells), "goals": goals(cells), "fixed": fixed(cells)}
    return pages.replaced(page, {f"thresholds: {name}": table for name, table in made.items()})


if __name__ == "__main__":
    file = RESULTS / "README.md"
    file.write_text(updated(file.read_text(encoding="utf-8")), encoding="utf-8")
