"""The tables of the report: scores, similar pairs, the space, transfer, cost; each next to the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.evaluation.pair_groups import GROUPS
from rankencoder.evaluation.sts_data import DEV, SEVEN
from rankencoder.evaluation.transfer_data import TRANSFER_TASKS
from rankencoder.report import paper
from rankencoder.report.document import Block, Cell, Group, Section, Table, clean, listed, number, plural, spread_cell
from rankencoder.report.views import View, set_order

if TYPE_CHECKING:
    from rankencoder.evaluation.results import Row

_MARKED = "Bold: the highest of a model’s own rows, which may be chance; the gains below have intervals."


def missing(ident: str, heading: str, advice: str) -> Section:
    """Return a section that says what to run to fill it."""
    return Section(ident, heading, f"Not measured in these results. To get it: {advice}.", missing=True)


def sts_section(views: Sequence[View], aggregation: str) -> Section:
    """Return Spearman's correlations by set, next to the paper's."""
    heading = "Scores on sentence pairs"
    scored = [view for view in views if view.rows]
    if not scored:
        return missing("sts", heading, "rankencoder evaluate MODEL --task sts")
    names = set_order(list(dict.fromkeys(n for v in scored for row in v.rows.values() for n in row.golds)))
    seven = any(name in SEVEN for name in names)
    columns = [*SEVEN, "AVG", *(n for n in names if n not in SEVEN)] if seven else names
    groups = [
        Group(label, _score_rows([v for v in scored if v.label == label], columns))
        for label in dict.fromkeys(v.label for v in scored)
    ]
    table = Table(
        f"Spearman’s correlation ×100 ({_AGGREGATIONS[aggregation]})",
        ["similarity", *map(clean, columns)],
        groups + (_published(columns) if seven else []),
        _set_notes(scored, names, seven),
    )
    blocks: list[Block] = [table]
    if not seven:
        head = ["encoder", *SEVEN, "AVG"]
        blocks.append(
            Table("The paper’s scores, BERT-base", head, _published(head[1:]), [paper.SOURCE], folded=True)
        )
    return Section("sts", heading, _sts_lead(scored, seven), blocks)


_AGGREGATIONS = {
    "all": "over all pairs of a set, the field’s convention",
    "mean": "the mean of a set’s sub-sets",
    "wmean": "the mean of a set’s sub-sets, weighted by their pairs",
}


def _sts_lead(scored: Sequence[View], seven: bool) -> str:
    told = []
    for view in scored:
        rows = list(view.rows.items())
        average = "AVG" if all("AVG" in row.values for _, row in rows) else ""
        column = average or next(iter(rows[0][1].golds), "")
        if column:
            scores = listed(f"{number(row.mean(column))} by {view.similarity(kind)}" for kind, row in rows)
            told.append(f"{view.name}: {scores} {'on average' if average else f'on {clean(column)}'}.")
    lead = "How well each similarity orders pairs of sentences as people do; 100 would be perfect. "
    return lead + " ".join(told) + (f" {paper.NOT_COMPARABLE}" if seven else "")


def _score_rows(views: Sequence[View], columns: Sequence[str]) -> list[tuple[str, list[Cell]]]:
    rows = [(view.system(kind), row) for view in views for kind, row in view.rows.items()]
    best = {c: max((row.mean(c) for _, row in rows if c in row.values), default=None) for c in columns}
    return [(name, [_score(row, c, best[c], len(rows)) for c in columns]) for name, row in rows]


def _score(row: Row, column: str, best: float | None, rivals: int) -> Cell:
    values = row.values.get(column, [])
    is_best = rivals > 1 and bool(values) and best is not None and row.mean(column) >= best
    return spread_cell(values, best=is_best)


def _published(columns: Sequence[str]) -> list[Group]:
    order = [*SEVEN, "AVG"]
    places = [order.index(column) if column in order else None for column in columns]
    main = [
        (name, [Cell("–") if i is None else Cell(f"{values[i]:.2f}") for i in places])
        for name, values in paper.STS.items()
    ]
    seeds = [
        (name, [Cell("–") if i is None else Cell(f"{v[i][0]:.1f}", f"{v[i][1]:.1f}") for i in places])
        for name, v in paper.STS_SEEDS.items()
    ]
    return [
        Group("Published, BERT-base: another backbone", main, published=True),
        Group("Published, BERT-base, three seeds", seeds, published=True),
    ]


def _set_notes(views: Sequence[View], names: Sequence[str], seven: bool) -> list[str]:
    notes = [_MARKED]
    if any(name in DEV for name in names):
        notes.append(f"{listed(n for n in names if n in DEV)}: for choosing, not for reporting.")
    if seven:
        notes.append(f"AVG: the mean of the seven test sets. Published figures: {paper.SOURCE}.")
    runs = [view for view in views if len(view.members) > 1]
    if runs:
        notes.append("±: standard deviation over runs that differ only in their seeds.")
    for view in views:
        for member in view.members:
            notes += [clean(note) for about in member["data"].values() for note in about["notes"]]
    return list(dict.fromkeys(notes))


def similar_section(views: Sequence[View]) -> Section:
    """Return correlations within groups of dissimilar, intermediate and similar pairs (Table 5)."""
    heading = "Pairs that are similar already"
    found = [v for v in views if v.rows and any(m.get("similar-pairs") for m in v.members)]
    if not found:
        return missing("similar", heading, "rankencoder evaluate MODEL --task similar-pairs")
    sets = dict.fromkeys(n for v in found for m in v.members for n in m.get("similar-pairs") or {})
    names = set_order(list(sets))
    main = "STS-B" if "STS-B" in names else names[0]
    blocks: list[Block] = [_similar_table(found, [main], f"{clean(main)}: Spearman ×100 within each group")]
    if "STS-B" in names:
        rows = [(n, [Cell(f"{value:.2f}") for value in v]) for n, v in paper.SIMILAR_PAIRS.items()]
        published = [Group("Published, BERT-base: another backbone", rows, published=True)]
        caption = "The paper’s Table 5: the similar pairs of STS-B, by base encoder"
        blocks.append(Table(caption, ["", *paper.BASES], published))
    others = [name for name in names if name != main]
    if others:
        caption = "The other sets: Spearman ×100 within each group"
        blocks.append(_similar_table(found, others, caption, folded=True))
    return Section("similar", heading, _similar_lead(found, main), blocks)


def _similar_parts(view: View, name: str) -> list[dict[str, Any]]:
    return [m["similar-pairs"][name] for m in view.members if name in (m.get("similar-pairs") or {})]


def _similar_table(
    views: Sequence[View], names: Sequence[str], caption: str, *, folded: bool = False
) -> Table:
    groups: dict[str, list[tuple[str, list[Cell]]]] = {}
    for name in names:
        for view in views:
            parts = _similar_parts(view, name)
            for kind, row in view.rows.items() if parts else ():
                pairs = listed(f"{about['pairs']:,} {group}" for group, about in parts[0].items())
                title = f"{view.label} on {clean(name)}: {pairs} pairs"
                cells = [spread_cell([part[g]["scores"].get(row.system) for part in parts]) for g in parts[0]]
                groups.setdefault(title, []).append((view.system(kind), cells))
    head = [f"{group}, {low:g}–{high:g}" for group, low, high in GROUPS]
    notes = ["Groups by gold score, scaled to 0–1. –: too few pairs, or all equal."]
    made = [Group(title, rows) for title, rows in groups.items()]
    return Table(caption, ["similarity", *head], made, notes, folded=folded)


def _similar_lead(views: Sequence[View], main: str) -> str:
    told = []
    for view in views:
        parts = _similar_parts(view, main)
        if not parts or not view.is_ranked:
            continue
        base, ranks = (
            [p["similar"]["scores"].get(view.rows[kind].system) for p in parts] for kind in ("cosine", "ranks")
        )
        if None in base or None in ranks:
            continue
        gain = number(float(np.mean(ranks) - np.mean(base)), signed=True)
        change = f"{spread_cell(base).text} to {spread_cell(ranks).text}, {gain}"
        told.append(f"{view.name}: from cosine to {view.similarity('ranks')} on similar pairs, {change}.")
    lead = (
        "Telling very similar from similar is the hardest part, and where the paper says that ranks help most. "
        f"Here are the correlations within three groups of gold scores, on {clean(main)}. "
    )
    return lead + " ".join(told)


_SPACE = (
    ("uniformity", "uniformity", 2, 1),
    ("alignment", "alignment", 3, 1),
    ("hubness", "hubness", 2, 1),
    ("effective_rank", "effective rank", 0, 1),
    ("first_share", "first direction, %", 1, 100),
    ("first_ten_share", "first ten, %", 1, 100),
    ("mean_norm", "mean vector", 2, 1),
)
_SPACE_NOTES = [
    "Uniformity: near 0 all vectors are alike, about −4 they are spread evenly; lower is better. Alignment: mean "
    "squared distance of pairs with a gold score above 4 of 5; lower is better. Hubness: skewness of how often "
    "a sentence is among the ten nearest of others; 0 is best. Effective rank: how many directions are in use. "
    "First direction: its share of the variance. Mean vector: its length; near 1 all point the same way.",
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
        return missing("space", heading, "rankencoder evaluate MODEL --task space")
    for base, (before, after) in paper.SPACE.items():
        rows = [
            (what, [Cell(number(u)), Cell(number(a)), *[Cell("–")] * 5])
            for what, (u, a) in (("vectors", before), ("rank vectors", after))
        ]
        groups.append(Group(f"Published, {base} (BERT-base)", rows, published=True))
    head = ["", *(title for _, title, _, _ in _SPACE)]
    table = Table("Table 2 of the paper, and more", head, groups, _SPACE_NOTES)
    lead = "How evenly the sentences are spread, and how near pairs of one meaning lie. " + " ".join(told)
    return Section("space", heading, lead, [table])


def _space_group(view: View, name: str, parts: list[dict[str, Any]]) -> Group:
    rows = []
    for space, title in (("base", "vectors"), ("ranks", f"{view.similarity('ranks')} vectors")):
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
        f"{view.name} on {clean(name)}: {view.similarity('ranks')} vectors are spread {even} than the encoder’s own "
        f"(uniformity {number(ranks['uniformity'])} against {number(base['uniformity'])})"
    )
    if base["alignment"] is not None and ranks["alignment"] is not None:
        near = "nearer together" if ranks["alignment"] < base["alignment"] else "further apart"
        told += f", and positive pairs lie {near} (alignment {number(ranks['alignment'], 3)} against "
        told += f"{number(base['alignment'], 3)})"
    return f"{told}."


def transfer_section(views: Sequence[View]) -> Section:
    """Return the accuracy of classifiers on the vectors (Table 3)."""
    heading = "Transfer to classification"
    labels: dict[str, list[dict[str, Any]]] = {}
    for view in views:
        labels.setdefault(view.label, [m["transfer"] for m in view.members if m.get("transfer")])
    groups = []
    columns = [*TRANSFER_TASKS, "AVG"]
    for label, parts in labels.items():
        systems = list(dict.fromkeys(name for part in parts for name in part))
        rows = [(clean(name) or "vectors", _accuracies([p[name] for p in parts if name in p])) for name in systems]
        if rows:
            groups.append(Group(label, rows))
    if not groups:
        return missing("transfer", heading, "rankencoder evaluate MODEL --task transfer (it takes longer)")
    published = [(n, [Cell(f"{value:.2f}") for value in v]) for n, v in paper.TRANSFER.items()]
    groups.append(Group("Published, BERT-base: another backbone", published, published=True))
    lead = (
        "How well a linear classifier does on the vectors, by SentEval’s protocol: accuracy in per cent. "
        "Rank vectors are made for comparing sentences; nothing says that they must help here."
    )
    table = Table("Accuracy in per cent", ["vectors", *columns], groups, [f"Published figures: {paper.SOURCE}."])
    return Section("transfer", heading, lead, [table])


def _accuracies(parts: list[dict[str, Any]]) -> list[Cell]:
    by_task = [[p[task]["accuracy"] for p in parts if task in p] for task in TRANSFER_TASKS]
    whole = [p for p in parts if all(task in p for task in TRANSFER_TASKS)]
    means = [float(np.mean([p[task]["accuracy"] for task in TRANSFER_TASKS])) for p in whole]
    return [spread_cell(values) for values in (*by_task, means)]
