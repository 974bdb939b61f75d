"""The section on other similarities: those that were tried on the dev pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankencoder.formatting import NOTHING, clean, number
from rankencoder.report.document import Cell, Group, Section, Table
from rankencoder.report.encoder_views import View

_SHOWN = 6  # candidates of each encoder


def choice_section(views: Sequence[View]) -> Section:
    """Tabulate the best candidates of each encoder, with their gains over plain cosine."""
    groups, notes = [], []
    for view in views:
        for choice in view.parts("choice")[:1]:
            notes.append(view.tell(clean(choice["sentence"])))
            if results := choice.get("results"):
                ordered = sorted(results, key=lambda result: -result["score"])
                shown = [one for i, one in enumerate(ordered) if i < _SHOWN or one["rank_weight"] == 0]
                groups.append(Group(f"{view.name}{view.run}", [_candidate(one, choice) for one in shown]))
    lead = "Cosine, ranks and powers of the covariance, chosen by cross-validation on the pairs for choosing."
    head = ["similarity", "score ×100", "gain over cosine", "folds that chose it"]
    blocks = [Table("The best of all that were tried", head, groups, notes)] if notes else []
    return Section("choice", "Other similarities", lead, blocks)


def _candidate(one: dict[str, Any], choice: dict[str, Any]) -> tuple[str, list[Cell]]:
    value, low, high = (number(100 * one["gain"][key], signed=True) for key in ("value", "low", "high"))
    gain = Cell(NOTHING) if one["rank_weight"] == 0 else Cell(value, f"({low} to {high})")
    is_chosen = one["name"] == choice["chosen"]["name"]
    cells = [Cell(number(100 * one["score"]), best=is_chosen), gain, Cell(str(one["folds"]))]
    return clean(one["name"]), cells
