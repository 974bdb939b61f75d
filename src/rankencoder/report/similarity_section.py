"""The similarities that were tried on the pairs for choosing, and the pairs that another one moves most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankencoder.report.answer import Answer
from rankencoder.report.document import Cell, Group, Section, Table
from rankencoder.report.encoder_views import View
from rankencoder.report.formatting import NOTHING, clean, number

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
        if not view.parts("choice"):
            notes += [view.tell(clean(advice["sentence"])) for advice in view.parts("advice")[:1]]
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


def changed_section(answer: Answer) -> Section:
    """List the pairs that came nearest to, and furthest from, their place by gold score."""
    view, blocks = answer.best.view, []
    for part in view.parts("changed")[:1]:
        ranks = view.similarity("ranks")
        for direction, moved in (("improved", "nearer to"), ("worsened", "further from")):
            caption = f"{ranks.capitalize()} put these pairs of {clean(part['set'])} {moved} their place"
            rows = [
                (f"{clean(pair['a'])} ↔ {clean(pair['b'])}", _places(pair))
                for pair in part["ranks"][direction]
            ]
            if rows:
                blocks.append(Table(caption, ["pair", "people", "cosine", ranks], [Group("", rows)]))
    lead = (
        f"Pairs of {view.name} that ranks move most. In brackets: the place among all pairs, "
        "from 0% (least similar) to 100% (most similar)."
    )
    return Section("pairs", "Example pairs", lead, blocks)


def _places(pair: dict[str, Any]) -> list[Cell]:
    scores = (f"{pair['gold']:g}".replace("-", "−"), number(pair["base"], 3), number(pair["other"], 3))
    return [Cell(s, f"({number(100 * at, 0)}%)") for s, at in zip(scores, pair["places"], strict=True)]
