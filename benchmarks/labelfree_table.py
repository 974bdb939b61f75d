"""Put what weights chosen without labels score into ``results/README.md``, between its marks.

The look that `rankencoder train` keeps without scored pairs, and the last one, beside that which STS-B dev
chooses::

    python benchmarks/labelfree_table.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pages
from labelfree_rules import Run, best, smooth

RESULTS = Path(__file__).parents[1] / "results"


def read(judges: tuple[str, ...] = ("stsb",)) -> list[Run]:
    """Return all runs of the study."""
    return [Run.read(file, list(judges)) for file in sorted((RESULTS / "labelfree").rglob("*.json"))]


def chosen_looks(run: Run) -> dict[str, int]:
    """Return the look that dev pairs choose, the last one, and that of `rankencoder train` without pairs."""
    halves = best(smooth(run.proxies["halves_spearman"]))
    return {"best look": best(run.scores), "last weights": len(run.scores) - 1, "halves": halves}


def show_choices(runs: list[Run]) -> str:
    """Return what three ways of choosing have on the dev sets and on the seven sets of STS."""
    kinds = sorted({run.kind for run in runs})
    groups = [(kind, [run for run in runs if run.kind == kind]) for kind in kinds] + [("all runs", runs)]
    rows = []
    for kind, of in groups:
        looks = [chosen_looks(run) for run in of]
        ways = list(looks[0])
        cells = []
        for curves in ([run.scores for run in of], [run.tests for run in of]):
            at = {way: [curve[look[way]] for curve, look in zip(curves, looks, strict=True)] for way in ways}
            first = np.array(at[ways[0]])
            cells += [f"{first.mean():.2f}", *(f"{(at[way] - first).mean():+.2f}" for way in ways[1:])]
        rows.append([kind.removeprefix("backbone "), str(len(of)), *cells])
    return pages.table(["run", "runs", "STS-B dev: best look", "last weights", "halves",
                  "AVG: that look", "last weights", "halves"], rows)  # fmt: skip


def updated(page: str) -> str:
    """Return the page with this table made anew."""
    return pages.replaced(page, {"label-free": show_choices(read())})


if __name__ == "__main__":
    file = RESULTS / "README.md"
    file.write_text(updated(file.read_text(encoding="utf-8")), encoding="utf-8")
