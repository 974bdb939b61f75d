"""Put the tables of ``results/runs`` into ``results/README.md``, between its marks, and draw its plots.

What was not measured is said to be so; next to our figures are the paper's, which are of BERT-base.
"""

from __future__ import annotations

from collections.abc import Callable

import paper_tables as paper
import study_tables as study
from pages import replaced
from result_plots import draw_all
from result_runs import RESULTS, Runs, read

TABLES: dict[str, Callable[[Runs], str]] = {
    "table 1": paper.table_1,
    "table 2": paper.table_2,
    "table 3": paper.table_3,
    "table 4": paper.table_4,
    "table 5": paper.table_5,
    "smollm2 1": paper.smollm2_table,
    "smollm2 4": lambda runs: paper.table_4(runs, "smollm2"),
    "smollm2 5": lambda runs: paper.table_5(runs, "smollm2"),
    "e1": study.e1_table,
    "reference size": paper.reference_table,
    "lambda inference": paper.inference_table,
    "lambda training": lambda runs: study.second_stage_table(runs, "lambda"),
    "tau": lambda runs: study.second_stage_table(runs, "tau"),
    "overlap": paper.overlap_table,
    "cost": paper.cost_table,
    "recipe": study.recipe_table,
    "when": study.when_table,
    "seen": study.seen_table,
    "speed": study.speed_table,
}


def updated(text: str, runs: Runs | None = None) -> str:
    """Return a page with its tables made anew."""
    found = read() if runs is None else runs
    return replaced(text, {name: make(found) for name, make in TABLES.items()})


if __name__ == "__main__":
    page = RESULTS / "README.md"
    page.write_text(updated(page.read_text(encoding="utf-8")), encoding="utf-8")
    draw_all(read(), RESULTS / "plots")
