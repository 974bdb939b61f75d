"""Pairs in words: what ranks change, for better and for worse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankencoder.report.document import Block, ChangedPair, Section, Words
from rankencoder.report.formatting import clean, number
from rankencoder.report.tables_section import missing
from rankencoder.report.views import View

_DIRECTIONS = (("improved", "nearer to"), ("worsened", "further from"))


def words_section(views: Sequence[View]) -> Section:
    """Return the pairs that came nearest to, and furthest from, their place by gold score."""
    heading = "In words: pairs that changed most"
    blocks: list[Block] = []
    told = []
    for view in views:
        parts = view.parts("changed")
        if parts:
            blocks += _of_view(view, parts[0])
            told.append(_told(view, parts[0]))
    if not blocks:
        return missing("words", heading, "`rankencoder evaluate MODEL --task changed`")
    lead = (
        "A pair’s place is its rank among all pairs of the set, from 0% (least similar) to 100% (most "
        "similar). Below are the pairs whose place moved most towards, or away from, the place that people "
        "gave them."
    )
    return Section("words", heading, lead, blocks, findings=told)


def _told(view: View, part: dict[str, Any]) -> str:
    best = part["ranks"]["improved"]
    if not best:
        return view.tell(f"no pair of {clean(part['set'])} improved.")
    gold, base, other = (number(100 * place, 0) for place in best[0]["places"])
    return view.tell(
        f"the most improved pair of {clean(part['set'])} went from {base}% by cosine to {other}% by "
        f"{view.similarity('ranks')}; people put it at {gold}%."
    )


def _of_view(view: View, part: dict[str, Any]) -> list[Block]:
    found: list[Block] = []
    for kind in ("ranks", "blend"):
        for direction, moved in _DIRECTIONS:
            pairs = [_pair(item) for item in part.get(kind, {}).get(direction, [])]
            other = view.similarity(kind)
            where = clean(part["set"]) + view.run
            caption = view.tell(
                f"{view.does(kind, 'put', 'puts')} these pairs of {where} {moved} their place"
            )
            if pairs:
                found.append(Words(caption, "cosine", other, pairs, folded=kind == "blend"))
    return found


def _pair(item: dict[str, Any]) -> ChangedPair:
    gold, base, other = (f"{number(100 * place, 0)}%" for place in item["places"])
    return ChangedPair(
        clean(item["a"]),
        clean(item["b"]),
        f"{item['gold']:g}".replace("-", "−"),
        number(item["base"], 3),
        number(item["other"], 3),
        (gold, base, other),
    )
