"""The tables of the report: scores, similar pairs, the space, transfer, cost; each next to the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.evaluation.pair_groups import GROUPS
from rankencoder.evaluation.sts_data import DEV, SEVEN
from rankencoder.evaluation.transfer_data import TRANSFER_TASKS
from rankencoder.report import paper
from rankencoder.report.document import Block, Cell, Group, Section, Table, spread_cell
from rankencoder.report.formatting import clean, listed, number
from rankencoder.report.views import View, form_notes, set_order

if TYPE_CHECKING:
    from rankencoder.evaluation.result_rows import Row

_MARKED = "Bold: the highest of a model’s own rows, which may be chance; the gains below have intervals."


def missing(ident: str, heading: str, advice: str) -> Section:
    """Return a section that says what to run to fill it."""
    return Section(ident, heading, f"Not measured in these results. To get it: {advice}.", missing=True)


def sts_section(views: Sequence[View], aggregation: str) -> Section:
    """Return Spearman's correlations by set, next to the paper's."""
    heading = "Scores on sentence pairs"
    scored = [view for view in views if view.rows]
    if not scored:
        return missing("sts", heading, "`rankencoder evaluate MODEL --task sts`")
    names = set_order(list(dict.fromkeys(n for v in scored for row in v.rows.values() for n in row.golds)))
    seven = any(name in SEVEN for name in names)
    others = [name for name in names if name not in SEVEN]
    caption = f"Spearman’s correlation ×100, {_AGGREGATIONS[aggregation]}"
    notes = _set_notes(scored, names)
    blocks: list[Block] = []
    if seven:
        columns = [*SEVEN, "AVG"]
        groups = [*_score_groups(scored, columns), *_published()]
        source = f"AVG: the mean of the seven test sets. Published figures: {paper.SOURCE}."
        blocks.append(Table(caption, ["similarity", *columns], groups, [source, *notes]))
    if others:
        head = ["similarity", *map(clean, others)]
        title = f"Other sets: {caption}" if seven else caption
        blocks.append(Table(title, head, _score_groups(scored, others), [] if seven else notes))
    if not seven:
        head, source = ["encoder", *SEVEN, "AVG"], f"{paper.SOURCE}. {paper.NOT_COMPARABLE}"
        blocks.append(Table("The paper’s scores, BERT-base", head, _published(), [source], folded=True))
    lead = "How well each similarity orders pairs of sentences as people do; 100 would be perfect."
    lead += f" {paper.NOT_COMPARABLE}" if seven else ""
    return Section("sts", heading, lead, blocks, findings=_averages(scored))


_AGGREGATIONS = {
    "all": "over all pairs of a set, the field’s convention",
    "mean": "the mean of a set’s sub-sets",
    "wmean": "the mean of a set’s sub-sets, weighted by their pairs",
}


def _averages(scored: Sequence[View]) -> list[str]:
    told = []
    for view in scored:
        rows = list(view.rows.items())
        average = "AVG" if all("AVG" in row.values for _, row in rows) else ""
        column = average or next(iter(rows[0][1].golds), "")
        if column:
            scores = listed(f"{number(row.mean(column))} by {view.similarity(kind)}" for kind, row in rows)
            told.append(view.tell(f"{'on average' if average else f'on {clean(column)}'}, {scores}."))
    return told


def _score_groups(views: Sequence[View], columns: Sequence[str]) -> list[Group]:
    labels = dict.fromkeys(view.label for view in views)
    return [Group(label, _score_rows([v for v in views if v.label == label], columns)) for label in labels]


def _score_rows(views: Sequence[View], columns: Sequence[str]) -> list[tuple[str, list[Cell]]]:
    rows = [(view.system(kind), row) for view in views for kind, row in view.rows.items()]
    best = {c: max((row.mean(c) for _, row in rows if c in row.values), default=None) for c in columns}
    return [(name, [_score(row, c, best[c], len(rows)) for c in columns]) for name, row in rows]


def _score(row: Row, column: str, best: float | None, rivals: int) -> Cell:
    values = row.values.get(column, [])
    if rivals == 1 or not values or best is None:
        return spread_cell(values)
    return spread_cell(values, best=round(row.mean(column), 2) >= round(best, 2))


def _published() -> list[Group]:
    main = [(name, [Cell(f"{value:.2f}") for value in values]) for name, values in paper.STS.items()]
    seeds = [
        (name, [Cell(f"{mean:.1f}", f"{spread:.1f}") for mean, spread in values])
        for name, values in paper.STS_SEEDS.items()
    ]
    return [
        Group("Published, BERT-base: another backbone", main, published=True),
        Group("Published, BERT-base, three seeds", seeds, published=True),
    ]


def _set_notes(views: Sequence[View], names: Sequence[str]) -> list[str]:
    notes = [_MARKED, *form_notes(views)]
    dev = [name for name in names if name in DEV]
    if dev:
        notes.append(f"{listed(dev)}: for choosing, not for reporting.")
    if any(len(view.members) > 1 for view in views):
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
        return missing("similar", heading, "`rankencoder evaluate MODEL --task similar-pairs`")
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
    lead = (
        "Telling very similar from similar is the hardest part, and where the paper says that ranks help "
        f"most. Here are the correlations within three groups of gold scores, on {clean(main)}."
    )
    return Section("similar", heading, lead, blocks, findings=_similar_told(found, main))


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


def _similar_told(views: Sequence[View], main: str) -> list[str]:
    told = []
    for view in views:
        parts = _similar_parts(view, main)
        if not parts or not view.is_ranked:
            continue
        base, ranks = (
            [p["similar"]["scores"].get(view.rows[kind].system) for p in parts]
            for kind in ("cosine", "ranks")
        )
        if None in base or None in ranks:
            continue
        gain = float(np.mean(ranks) - np.mean(base))
        does = view.does("ranks", *(("gain", "gains") if gain > 0 else ("lose", "loses")))
        told.append(
            view.tell(
                f"on similar pairs, {does} {number(abs(gain))} points against cosine "
                f"({number(float(np.mean(ranks)))} and {number(float(np.mean(base)))})."
            )
        )
    return told


def transfer_section(views: Sequence[View]) -> Section:
    """Return the accuracy of classifiers on the vectors (Table 3)."""
    heading = "Transfer to classification"
    models = {view.label: [m["transfer"] for m in view.members if m.get("transfer")] for view in views}
    groups, notes = [], [f"Published figures: {paper.SOURCE}."]
    for label, parts in models.items():
        systems = dict.fromkeys(name for part in parts for name in part["systems"])
        rows = [(clean(name), _accuracies([part["systems"].get(name) for part in parts])) for name in systems]
        groups += [Group(label, rows)] if rows else []
        notes += [clean(note) for part in parts for about in part["data"].values() for note in about["notes"]]
    if not groups:
        return missing("transfer", heading, "`rankencoder evaluate MODEL --task transfer` (it takes longer)")
    published = [(name, [Cell(f"{value:.2f}") for value in row]) for name, row in paper.TRANSFER.items()]
    groups.append(Group("Published, BERT-base: another backbone", published, published=True))
    lead = (
        "How well a linear classifier does on the vectors, by SentEval’s protocol: accuracy in per cent. "
        "Rank vectors are made for comparing sentences; nothing says that they must help here."
    )
    findings = [f"{group.title}: {_best_average(group)}." for group in groups[:-1]]
    head = ["vectors", *TRANSFER_TASKS, "AVG"]
    table = Table("Accuracy in per cent", head, groups, list(dict.fromkeys(notes)))
    return Section("transfer", heading, lead, [table], findings=findings)


def _accuracies(parts: list[dict[str, Any] | None]) -> list[Cell]:
    found = [part for part in parts if part is not None]
    by_task = [[p["tasks"][t]["accuracy"] for p in found if t in p["tasks"]] for t in TRANSFER_TASKS]
    return [spread_cell(values) for values in (*by_task, [part["AVG"] for part in found])]


def _best_average(group: Group) -> str:
    return listed(f"{cells[-1].text} by {name}" for name, cells in group.rows) + " on average"
