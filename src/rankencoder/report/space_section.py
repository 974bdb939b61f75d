"""The shape of the space: how evenly vectors are spread, and how near pairs of one meaning lie (Table 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankencoder.report import paper_scores
from rankencoder.report.document import Cell, Group, Section, Table, spread_cell
from rankencoder.report.encoder_views import View, form_notes
from rankencoder.report.formatting import NOTHING, clean, number, plural

_COLUMNS = (
    ("uniformity", "uniformity", 2, 1),
    ("alignment", "alignment", 3, 1),
    ("hubness", "hubness", 2, 1),
    ("effective_rank", "eff. rank", 0, 1),
    ("first_share", "1st dir., %", 1, 100),
    ("first_ten_share", "1st ten, %", 1, 100),
    ("mean_norm", "mean norm", 2, 1),
)


def space_section(views: Sequence[View]) -> Section:
    """Tabulate uniformity, alignment and more of base and rank vectors."""
    groups, findings = [], []
    for view in views:
        sets = list(dict.fromkeys(name for member in view.members for name in member.get("space") or {}))
        parts = {name: [part[view.role] for part in view.set_parts("space", name)] for name in sets}
        groups += [_group(view, name, of_set) for name, of_set in parts.items()]
        if sets and view.is_ranked:
            findings.append(_compare(view, sets[0], parts[sets[0]][0]))
    if not groups:
        return Section("space")
    published = [
        (f"{base}, {what}", [Cell(number(u)), Cell(number(a)), *[Cell(NOTHING)] * 5])
        for base, spaces in paper_scores.SPACE.items()
        for what, (u, a) in zip(("vectors", "rank vectors"), spaces, strict=True)
    ]
    groups.append(Group("Published, BERT-base: another backbone, on STS-B", published, published=True))
    head = ["", *(title for _, title, _, _ in _COLUMNS)]
    table = Table("Table 2 of the paper, and more", head, groups, form_notes(views))
    return Section("space", [table], findings)


def _group(view: View, name: str, parts: list[dict[str, Any]]) -> Group:
    rows = []
    for space, title in (("base", "vectors"), ("ranks", view.vectors)):
        found = [part[space] for part in parts if space in part]
        if found:
            rows.append((title, [_cell(found, key, digits, by) for key, _, digits, by in _COLUMNS]))
    first = parts[0]["base"]
    counts = f"{plural(first['sentences'], 'sentence')}, {plural(first['positive_pairs'], 'positive pair')}"
    return Group(f"{view.name} on {clean(name)} ({counts})", rows)


def _cell(found: list[dict[str, Any]], key: str, digits: int, by: float) -> Cell:
    return spread_cell([None if part[key] is None else by * part[key] for part in found], digits)


def _compare(view: View, name: str, part: dict[str, Any]) -> str:
    base, ranks = part["base"], part.get("ranks", part["base"])
    even = "more evenly" if ranks["uniformity"] < base["uniformity"] else "less evenly"
    found = (
        f"on {clean(name)}{view.run}, {view.vectors} are spread {even} than the encoder’s own "
        f"(uniformity {number(ranks['uniformity'])} against {number(base['uniformity'])})"
    )
    if base["alignment"] is not None and ranks["alignment"] is not None:
        near = "nearer together" if ranks["alignment"] < base["alignment"] else "further apart"
        found += f", and positive pairs lie {near} (alignment {number(ranks['alignment'], 3)} against "
        found += f"{number(base['alignment'], 3)})"
    return view.tell(f"{found}.")
