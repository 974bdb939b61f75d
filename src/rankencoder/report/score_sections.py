"""The tables, each next to the paper's: sentence pairs, similar pairs, the shape of the space, transfer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rankencoder.evaluation.pair_groups import GROUPS
from rankencoder.evaluation.result_rows import Row
from rankencoder.evaluation.sts_data import DEV, SEVEN
from rankencoder.evaluation.transfer_data import TRANSFER_TASKS
from rankencoder.report import paper_scores
from rankencoder.report.document import Cell, Group, Section, Table, spread_cell
from rankencoder.report.encoder_views import View, form_notes, set_order
from rankencoder.report.formatting import NOTHING, clean, listed, number, plural

_BOLD = "Bold: the highest of a model’s own rows, which may be chance; the gains below have intervals."
_PUBLISHED = "Published, BERT-base: another backbone"
_AGGREGATIONS = {
    "all": "over all pairs of a set, the field’s convention",
    "mean": "the mean of a set’s sub-sets",
    "wmean": "the mean of a set’s sub-sets, weighted by their pairs",
}

_COLUMNS = (
    ("uniformity", "uniformity", 2, 1),
    ("alignment", "alignment", 3, 1),
    ("hubness", "hubness", 2, 1),
    ("effective_rank", "eff. rank", 0, 1),
    ("first_share", "1st dir., %", 1, 100),
    ("first_ten_share", "1st ten, %", 1, 100),
    ("mean_norm", "mean norm", 2, 1),
)


def sts_section(views: Sequence[View], aggregation: str) -> Section:
    """Tabulate Spearman's correlations by set, next to the paper's."""
    scored = [view for view in views if view.rows]
    if not scored:
        return Section("sts")
    names = set_order([name for view in scored for row in view.rows.values() for name in row.golds])
    others = [name for name in names if name not in SEVEN]
    caption = f"Spearman’s correlation ×100, {_AGGREGATIONS[aggregation]}"
    notes = _notes(scored, names)
    seven = [*SEVEN, "AVG"]
    published = [
        _published(paper_scores.STS),
        Group("Published, BERT-base, three seeds", _seed_rows(), published=True),
    ]
    source = f"Published figures: {paper_scores.SOURCE}. {paper_scores.NOT_COMPARABLE}"
    if len(others) == len(names):
        own = Table(caption, ["similarity", *map(clean, others)], _groups(scored, others), notes)
        title = "The paper’s scores, BERT-base"
        return Section("sts", [own, Table(title, ["encoder", *seven], published, [source], folded=True)])
    notes = ["AVG: the mean of the seven test sets.", source, *notes]
    tables = [Table(caption, ["similarity", *seven], [*_groups(scored, seven), *published], notes)]
    if others:
        head = ["similarity", *map(clean, others)]
        tables.append(Table(f"Other sets: {caption}", head, _groups(scored, others)))
    return Section("sts", tables)


def _groups(views: Sequence[View], columns: Sequence[str]) -> list[Group]:
    labels = dict.fromkeys(view.label for view in views)
    return [Group(label, _rows([v for v in views if v.label == label], columns)) for label in labels]


def _rows(views: Sequence[View], columns: Sequence[str]) -> list[tuple[str, list[Cell]]]:
    rows = [(view.system(kind), row) for view in views for kind, row in view.rows.items()]
    best = {c: max((row.mean(c) for _, row in rows if c in row.values), default=np.inf) for c in columns}
    if len(rows) == 1:
        best = dict.fromkeys(columns, np.inf)  # has no rivals
    return [(name, [_score(row, c, best[c]) for c in columns]) for name, row in rows]


def _score(row: Row, column: str, best: float) -> Cell:
    values = row.values.get(column, [])
    return spread_cell(values, best=bool(values) and round(row.mean(column), 2) >= round(best, 2))


def _published(scores: Mapping[str, Sequence[float]]) -> Group:
    rows = [(name, [Cell(f"{value:.2f}") for value in values]) for name, values in scores.items()]
    return Group(_PUBLISHED, rows, published=True)


def _seed_rows() -> list[tuple[str, list[Cell]]]:
    return [
        (name, [Cell(f"{mean:.1f}", f"{spread:.1f}") for mean, spread in values])
        for name, values in paper_scores.STS_SEEDS.items()
    ]


def _notes(views: Sequence[View], names: Sequence[str]) -> list[str]:
    notes = [_BOLD, *form_notes(views)]
    dev = [name for name in names if name in DEV]
    if dev:
        notes.append(f"{listed(dev)}: for choosing, not for reporting.")
    if any(len(view.members) > 1 for view in views):
        notes.append("±: standard deviation over runs that differ only in their seeds.")
    members = [member for view in views for member in view.members]
    notes += [
        clean(note) for member in members for about in member["data"].values() for note in about["notes"]
    ]
    return list(dict.fromkeys(notes))


def similar_section(views: Sequence[View]) -> Section:
    """Tabulate correlations within groups of dissimilar, intermediate and similar pairs (Table 5)."""
    found = [view for view in views if view.rows]
    names = set_order([n for v in found for m in v.members for n in m.get("similar-pairs") or {}])
    if not names:
        return Section("similar")
    main = "STS-B" if "STS-B" in names else names[0]
    tables = [_similar_table(found, [main], f"{clean(main)}: Spearman ×100 within each group")]
    if "STS-B" in names:
        caption = "The paper’s Table 5: the similar pairs of STS-B, by base encoder"
        published = _published(paper_scores.SIMILAR_PAIRS)
        tables.append(Table(caption, ["", *paper_scores.BASES], [published]))
    others = [name for name in names if name != main]
    if others:
        caption = "The other sets: Spearman ×100 within each group"
        tables.append(_similar_table(found, others, caption, folded=True))
    findings = [_similar_gain(view, main) for view in found if view.is_ranked]
    return Section("similar", tables, [finding for finding in findings if finding])


def _similar_table(
    views: Sequence[View], names: Sequence[str], caption: str, *, folded: bool = False
) -> Table:
    groups: dict[str, list[tuple[str, list[Cell]]]] = {}
    for name in names:
        for view in views:
            parts = view.set_parts("similar-pairs", name)
            for kind, row in view.rows.items() if parts else ():
                pairs = listed(f"{about['pairs']:,} {group}" for group, about in parts[0].items())
                title = f"{view.label} on {clean(name)}: {pairs} pairs"
                cells = [spread_cell([part[g]["scores"].get(row.system) for part in parts]) for g in parts[0]]
                groups.setdefault(title, []).append((view.system(kind), cells))
    head = [f"{group}, {low:g}–{high:g}" for group, low, high in GROUPS]
    made = [Group(title, rows) for title, rows in groups.items()]
    return Table(caption, ["similarity", *head], made, folded=folded)


def _similar_gain(view: View, name: str) -> str:
    """Say what ranks gain over cosine on the similar pairs of a set, where both were scored."""
    scores = [part["similar"]["scores"] for part in view.set_parts("similar-pairs", name)]
    base, ranks = ([s.get(view.rows[kind].system) for s in scores] for kind in ("cosine", "ranks"))
    if not scores or None in base or None in ranks:
        return ""
    gain = float(np.mean(ranks) - np.mean(base))
    does = view.does("ranks", *(("gain", "gains") if gain > 0 else ("lose", "loses")))
    return view.tell(
        f"on similar pairs, {does} {number(abs(gain))} points against cosine "
        f"({number(float(np.mean(ranks)))} and {number(float(np.mean(base)))})."
    )


def space_section(views: Sequence[View]) -> Section:
    """Tabulate uniformity, alignment and more of base and rank vectors (Table 2)."""
    groups, findings = [], []
    for view in views:
        sets = list(dict.fromkeys(name for member in view.members for name in member.get("space") or {}))
        parts = {name: [part[view.role] for part in view.set_parts("space", name)] for name in sets}
        groups += [_space_group(view, name, of_set) for name, of_set in parts.items()]
        if sets and view.is_ranked:
            findings.append(_compare_spaces(view, sets[0], parts[sets[0]][0]))
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


def _space_group(view: View, name: str, parts: list[dict[str, Any]]) -> Group:
    rows = []
    for space, title in (("base", "vectors"), ("ranks", view.vectors)):
        found = [part[space] for part in parts if space in part]
        if found:
            rows.append((title, [_space_cell(found, key, digits, by) for key, _, digits, by in _COLUMNS]))
    first = parts[0]["base"]
    counts = f"{plural(first['sentences'], 'sentence')}, {plural(first['positive_pairs'], 'positive pair')}"
    return Group(f"{view.name} on {clean(name)} ({counts})", rows)


def _space_cell(found: list[dict[str, Any]], key: str, digits: int, by: float) -> Cell:
    return spread_cell([None if part[key] is None else by * part[key] for part in found], digits)


def _compare_spaces(view: View, name: str, part: dict[str, Any]) -> str:
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


def transfer_section(views: Sequence[View]) -> Section:
    """Tabulate the accuracy of classifiers on the vectors (Table 3)."""
    models = {view.label: [m["transfer"] for m in view.members if m.get("transfer")] for view in views}
    groups, notes = [], [f"Published figures: {paper_scores.SOURCE}."]
    for label, parts in models.items():
        systems = dict.fromkeys(name for part in parts for name in part["systems"])
        rows = [(clean(name), _accuracies([part["systems"].get(name) for part in parts])) for name in systems]
        groups += [Group(label, rows)] if rows else []
        notes += [clean(note) for part in parts for about in part["data"].values() for note in about["notes"]]
    if not groups:
        return Section("transfer")
    groups.append(_published(paper_scores.TRANSFER))
    head = ["vectors", *TRANSFER_TASKS, "AVG"]
    return Section("transfer", [Table("Accuracy in per cent", head, groups, list(dict.fromkeys(notes)))])


def _accuracies(parts: list[dict[str, Any] | None]) -> list[Cell]:
    found = [part for part in parts if part is not None]
    by_task = [[p["tasks"][t]["accuracy"] for p in found if t in p["tasks"]] for t in TRANSFER_TASKS]
    return [spread_cell(values) for values in (*by_task, [part["AVG"] for part in found])]
