"""The table of the space: how evenly vectors are spread, and how near pairs of one meaning lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankencoder.report import paper
from rankencoder.report.document import Cell, Group, Section, Table, spread_cell
from rankencoder.report.formatting import NOTHING, clean, number, plural
from rankencoder.report.tables_section import missing
from rankencoder.report.views import View, form_notes

_SPACE = (
    ("uniformity", "uniformity", 2, 1),
    ("alignment", "alignment", 3, 1),
    ("hubness", "hubness", 2, 1),
    ("effective_rank", "eff. rank", 0, 1),
    ("first_share", "1st dir., %", 1, 100),
    ("first_ten_share", "1st ten, %", 1, 100),
    ("mean_norm", "mean norm", 2, 1),
)
_SPACE_NOTES = [
    "Uniformity: near 0 all vectors are alike, about −4 they are spread evenly; lower is better. Alignment: "
    "mean squared distance of pairs with a gold score above 4 of 5; lower is better. Hubness: skewness of "
    "how often a sentence is among the ten nearest of others; 0 is best. Eff. rank: how many directions "
    "are in use. 1st dir., 1st ten: the share of the first one and ten directions in the variance. Mean "
    "norm: the length of the mean vector; near 1 all point the same way.",
]


def space_section(views: Sequence[View]) -> Section:
    """Return uniformity, alignment and more of base and rank vectors (Table 2)."""
    heading = "The shape of the space"
    groups, told = [], []
    for view in views:
        sets = list(dict.fromkeys(n for m in view.members for n in m.get("space") or {}))
        for name in sets:
            parts = [m["space"][name][view.role] for m in view.members if name in (m.get("space") or {})]
            groups.append(_space_group(view, name, parts))
        if sets and view.is_ranked:
            told.append(_space_told(view, sets[0]))
    if not groups:
        return missing("space", heading, "`rankencoder evaluate MODEL --task space`")
    rows = [
        (f"{base}, {what}", [Cell(number(u)), Cell(number(a)), *[Cell(NOTHING)] * 5])
        for base, spaces in paper.SPACE.items()
        for what, (u, a) in zip(("vectors", "rank vectors"), spaces, strict=True)
    ]
    groups.append(Group("Published, BERT-base: another backbone, on STS-B", rows, published=True))
    head = ["", *(title for _, title, _, _ in _SPACE)]
    table = Table("Table 2 of the paper, and more", head, groups, [*_SPACE_NOTES, *form_notes(views)])
    lead = "How evenly the sentences are spread, and how near pairs of one meaning lie."
    return Section("space", heading, lead, [table], findings=told)


def _space_group(view: View, name: str, parts: list[dict[str, Any]]) -> Group:
    rows = []
    for space, title in (("base", "vectors"), ("ranks", view.vectors)):
        found = [part[space] for part in parts if space in part]
        if found:
            rows.append((title, [_space_cell(found, key, digits, by) for key, _, digits, by in _SPACE]))
    first = parts[0]["base"]
    counts = f"{plural(first['sentences'], 'sentence')}, {plural(first['positive_pairs'], 'positive pair')}"
    return Group(f"{view.name} on {clean(name)} ({counts})", rows)


def _space_cell(found: list[dict[str, Any]], key: str, digits: int, by: float) -> Cell:
    return spread_cell([None if part[key] is None else by * part[key] for part in found], digits)


def _space_told(view: View, name: str) -> str:
    part = next(m["space"][name][view.role] for m in view.members if name in (m.get("space") or {}))
    base, ranks = part["base"], part.get("ranks", part["base"])
    even = "more evenly" if ranks["uniformity"] < base["uniformity"] else "less evenly"
    told = (
        f"on {clean(name)}{view.run}, {view.vectors} are spread {even} than the encoder’s own "
        f"(uniformity {number(ranks['uniformity'])} against {number(base['uniformity'])})"
    )
    if base["alignment"] is not None and ranks["alignment"] is not None:
        near = "nearer together" if ranks["alignment"] < base["alignment"] else "further apart"
        told += f", and positive pairs lie {near} (alignment {number(ranks['alignment'], 3)} against "
        told += f"{number(base['alignment'], 3)})"
    return view.tell(f"{told}.")
