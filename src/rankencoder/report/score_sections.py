"""The tables, most next to the paper's: sentence pairs, similar pairs, shape of the space, transfer, cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rankencoder.evaluation.pair_groups import GROUPS
from rankencoder.evaluation.result_rows import Row
from rankencoder.evaluation.sts_data import DEV, SEVEN
from rankencoder.evaluation.transfer_data import TRANSFER_TASKS
from rankencoder.report import paper_scores
from rankencoder.report.document import Cell, Figure, Group, Section, Table, spread_cell
from rankencoder.report.encoder_views import View, set_order
from rankencoder.report.formatting import NOTHING, clean, listed, number, plural
from rankencoder.report.yes_no_blocks import yes_no_blocks

_PUBLISHED = "Published, BERT-base: another backbone"
_AGGREGATIONS = {
    "all": "over all pairs of a set, the field’s convention",
    "mean": "the mean of a set’s sub-sets",
    "wmean": "the mean of a set’s sub-sets, weighted by their pairs",
}

_Columns = Sequence[tuple[str, str, int, float]]  # what was measured, its title, digits, and scale
_SPACE: _Columns = (
    ("uniformity", "uniformity", 2, 1),
    ("alignment", "alignment", 3, 1),
    ("hubness", "hubness", 2, 1),
    ("effective_rank", "eff. rank", 0, 1),
    ("first_share", "1st dir., %", 1, 100),
    ("first_ten_share", "1st ten, %", 1, 100),
    ("mean_norm", "mean norm", 2, 1),
)
_COST: _Columns = (
    ("model_ms", "encoder, ms", 4, 1),
    ("form_ms", "rank part, ms", 4, 1),
    ("total_ms", "together, ms", 4, 1),
    ("reference_seconds", "reference, s", 1, 1),
    ("reference_bytes", "reference, MiB", 1, 2**-20),
    ("form_bytes", "form, MiB", 1, 2**-20),
    ("vector_bytes", "vector, KiB", 1, 2**-10),
)


def sts_section(views: Sequence[View], aggregation: str) -> Section:
    """Tabulate Spearman's correlations by set, next to the paper's; then sets with yes/no labels."""
    scored = [view for view in views if view.rows]
    names = set_order([name for view in scored for row in view.rows.values() for name in row.golds])
    labelled = {name for view in scored for row in view.rows.values() for name in row.yes_no}
    names = [name for name in names if name not in labelled]
    others = [name for name in names if name not in SEVEN]
    caption, notes = f"Spearman’s correlation ×100, {_AGGREGATIONS[aggregation]}", _notes(scored, names)
    tables: list[Table | Figure] = []
    if len(others) < len(names):
        columns = [*SEVEN, "AVG"]
        groups = [*_groups(scored, columns), _published(paper_scores.STS), _published_seeds()]
        source = f"Published figures: {paper_scores.SOURCE}. {paper_scores.NOT_COMPARABLE}"
        notes = ["AVG: the mean of the seven test sets.", source, *notes]
        tables.append(Table(caption, ["similarity", *columns], groups, notes))
        caption, notes = f"Other sets: {caption}", []
    if others:
        head = ["similarity", *map(clean, others)]
        tables.append(Table(caption, head, _groups(scored, others), notes))
    return Section("sts", [*tables, *yes_no_blocks(scored)])


def _groups(views: Sequence[View], columns: Sequence[str]) -> list[Group]:
    """Return a group of rows for each model, its best figure of each column marked."""
    groups = []
    for label in dict.fromkeys(view.label for view in views):
        own = [view for view in views if view.label == label]
        rows = [(view.system(kind), row) for view in own for kind, row in view.rows.items()]
        best = {c: max(_rounded(row, c) for _, row in rows) for c in columns} if len(rows) > 1 else {}
        lines = [(name, [_score(row, c, best.get(c)) for c in columns]) for name, row in rows]
        groups.append(Group(label, lines))
    return groups


def _score(row: Row, column: str, best: float | None) -> Cell:
    return spread_cell(row.values.get(column, []), best=_rounded(row, column) == best)


def _rounded(row: Row, column: str) -> float:
    return round(row.mean(column), 2) if column in row.values else -np.inf


def _published(scores: Mapping[str, Sequence[float]]) -> Group:
    rows = [(name, [Cell(f"{value:.2f}") for value in values]) for name, values in scores.items()]
    return Group(_PUBLISHED, rows, published=True)


def _published_seeds() -> Group:
    rows = [
        (name, [Cell(f"{mean:.1f}", f"{spread:.1f}") for mean, spread in values])
        for name, values in paper_scores.STS_SEEDS.items()
    ]
    return Group("Published, BERT-base, three seeds", rows, published=True)


def _notes(views: Sequence[View], names: Sequence[str]) -> list[str]:
    notes = ["Bold: the highest of a model’s own rows, which may be chance; the gains below have intervals."]
    notes += [_form_note(view) for view in views]
    if dev := [name for name in names if name in DEV]:
        notes.append(f"{listed(dev)}: for choosing, not for reporting.")
    if any(len(view.members) > 1 for view in views):
        notes.append("±: standard deviation over runs that differ only in their seeds.")
    sets = [about for view in views for member in view.members for about in member["data"].values()]
    if any(about["notes"] for about in sets):
        notes.append("Some sets are not as published: see the notes on the data, at the end.")
    return list(dict.fromkeys(note for note in notes if note))


def _form_note(view: View) -> str:
    """Say that ranks are not the exact ranks of the paper, where they are not."""
    form = view.subject.get("form", {"name": "exact"})
    ranks = "Ranks here are" if view.is_alone else f"Ranks of {view.label} are"
    if view.similarity("ranks") != "ranks" or form["name"] == "exact":
        return ""
    if form["name"] == "compact":
        size = f"{form['settings']['dim']:,} dimensions"
        return f"{ranks} in the compact form, {size}: close to the exact ranks of the paper, not equal."
    what = "Pearson’s correlation in place of Spearman’s, not the paper’s"
    return f"{ranks} in the linear form, power +½: {what}."


def similar_section(views: Sequence[View]) -> Section:
    """Tabulate correlations within groups of dissimilar, intermediate and similar pairs (Table 5)."""
    groups: dict[str, list[tuple[str, list[Cell]]]] = {}
    names = set_order([n for v in views for m in v.members for n in m.get("similar-pairs") or {}])
    own = [name for name in names if name == "STS-B" or name not in (*SEVEN, *DEV)]
    for name in own or names[:1]:
        for view in views:
            parts = view.set_parts("similar-pairs", name)
            for kind, row in view.rows.items() if parts else ():
                pairs = listed(f"{about['pairs']:,} {group}" for group, about in parts[0].items())
                title = f"{view.label} on {clean(name)}: {pairs} pairs"
                cells = [spread_cell([part[g]["scores"].get(row.system) for part in parts]) for g in parts[0]]
                groups.setdefault(title, []).append((view.system(kind), cells))
    if not groups:
        return Section("similar")
    head = ["similarity", *(f"{group}, {low:g}–{high:g}" for group, low, high in GROUPS)]
    made = [Group(title, rows) for title, rows in groups.items()]
    tables = [Table("Spearman ×100 within each group", head, made)]
    if "STS-B" in own:
        caption = "The paper’s Table 5: the similar pairs of STS-B, by base encoder"
        published = _published(paper_scores.SIMILAR_PAIRS)
        tables.append(Table(caption, ["", *paper_scores.BASES], [published]))
    return Section("similar", tables)


def space_section(views: Sequence[View]) -> Section:
    """Tabulate uniformity, alignment and more of base and rank vectors (Table 2)."""
    groups = []
    for view in views:
        for name in set_order([name for member in view.members for name in member.get("space") or {}]):
            parts = [part[view.role] for part in view.set_parts("space", name)]
            first = parts[0]["base"]
            counts = [
                plural(first["sentences"], "sentence"),
                plural(first["positive_pairs"], "positive pair"),
            ]
            rows = [
                (title, _measured([part[space] for part in parts], _SPACE))
                for space, title in (("base", "vectors"), ("ranks", view.vectors))
                if space in parts[0]
            ]
            groups.append(Group(f"{view.name} on {clean(name)} ({', '.join(counts)})", rows))
    if not groups:
        return Section("space")
    published = [
        (f"{base}, {what}", [Cell(number(u)), Cell(number(a)), *[Cell(NOTHING)] * 5])
        for base, spaces in paper_scores.SPACE.items()
        for what, (u, a) in zip(("vectors", "rank vectors"), spaces, strict=True)
    ]
    groups.append(Group(f"{_PUBLISHED}, on STS-B", published, published=True))
    head = ["", *(title for _, title, _, _ in _SPACE)]
    return Section("space", [Table("Table 2 of the paper, and more", head, groups)])


def _measured(parts: Sequence[dict[str, Any]], columns: _Columns) -> list[Cell]:
    """Return what was measured, the mean over runs where there are several."""
    return [
        spread_cell([scale * part[key] for part in parts if part.get(key) is not None], digits)
        for key, _, digits, scale in columns
    ]


def transfer_section(views: Sequence[View]) -> Section:
    """Tabulate the accuracy of classifiers on the vectors (Table 3)."""
    models = {view.label: [m["transfer"] for m in view.members if m.get("transfer")] for view in views}
    groups = []
    for label, parts in models.items():
        systems = dict.fromkeys(name for part in parts for name in part["systems"])
        rows = [(clean(name), _accuracies([part["systems"].get(name) for part in parts])) for name in systems]
        groups += [Group(label, rows)] if rows else []
    if not groups:
        return Section("transfer")
    groups.append(_published(paper_scores.TRANSFER))
    head = ["vectors", *TRANSFER_TASKS, "AVG"]
    notes = [f"Published figures: {paper_scores.SOURCE}."]
    return Section("transfer", [Table("Accuracy in per cent", head, groups, notes)])


def _accuracies(parts: list[dict[str, Any] | None]) -> list[Cell]:
    found = [part for part in parts if part is not None]
    by_task = [[p["tasks"][t]["accuracy"] for p in found if t in p["tasks"]] for t in TRANSFER_TASKS]
    return [spread_cell(values) for values in (*by_task, [part["AVG"] for part in found])]


def cost_section(views: Sequence[View]) -> Section:
    """Tabulate time and memory, by encoder."""
    measured = [(view, parts) for view in views if (parts := view.parts("cost"))]
    if not measured:
        return Section("cost")
    rows, notes = [], []
    for view, parts in measured:
        where = f"{clean(parts[0]['device'])}, {plural(parts[0]['threads'], 'thread')}"
        rows.append((f"{view.name} ({where})", _measured(parts, _COST)))
        if view.is_ranked:
            encoder, rank_part = (np.mean([part[key] for part in parts]) for key in ("model_ms", "form_ms"))
            share = f"{number(100 * rank_part / encoder, 0)}%"
            notes.append(view.tell(f"{view.vectors} add {share} to the encoder’s time."))
    head = ["", *(title for _, title, _, _ in _COST)]
    return Section("cost", [Table("Time and memory", head, [Group("", rows)], notes)])
