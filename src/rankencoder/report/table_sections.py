"""More tables: similar pairs, transfer to classification, and cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankencoder.evaluation.pair_groups import GROUPS
from rankencoder.evaluation.sts_data import DEV, SEVEN
from rankencoder.evaluation.transfer_data import TRANSFER_TASKS
from rankencoder.report.document import Cell, Group, Section, Table, spread_cell
from rankencoder.report.encoder_views import View, set_order
from rankencoder.report.formatting import clean, listed, plural

_COST = (  # what was measured, its title, digits, and scale
    ("model_ms", "encoder, ms", 3, 1),
    ("form_ms", "rank part, ms", 3, 1),
    ("reference_seconds", "reference, s", 1, 1),
    ("form_bytes", "form, MiB", 1, 2**-20),
    ("vector_bytes", "vector, KiB", 1, 2**-10),
)


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
                if any(cell.text != "–" for cell in cells):  # yes/no labels have no groups
                    groups.setdefault(title, []).append((view.system(kind), cells))
    head = ["similarity", *(f"{group}, {low:g}–{high:g}" for group, low, high in GROUPS)]
    made = [Group(title, rows) for title, rows in groups.items()]
    lead = "Telling very similar from similar pairs is the hardest part. Groups are of gold scores, 0 to 1."
    tables = [Table("Spearman ×100 within each group", head, made)] if made else []
    return Section("similar", "Among similar pairs", lead, tables)


def transfer_section(views: Sequence[View]) -> Section:
    """Tabulate the accuracy of classifiers on the vectors (Table 3)."""
    models = {view.label: [m["transfer"] for m in view.members if m.get("transfer")] for view in views}
    groups = []
    for label, parts in models.items():
        systems = dict.fromkeys(name for part in parts for name in part["systems"])
        rows = [(clean(name), _accuracies([part["systems"].get(name) for part in parts])) for name in systems]
        groups += [Group(label, rows)] if rows else []
    tables = [Table("Accuracy in per cent", ["vectors", *TRANSFER_TASKS, "AVG"], groups)] if groups else []
    lead = "Accuracy of a linear classifier on the vectors, by SentEval’s protocol."
    return Section("transfer", "Transfer to classification", lead, tables)


def _accuracies(parts: list[dict[str, Any] | None]) -> list[Cell]:
    found = [part for part in parts if part is not None]
    by_task = [[p["tasks"][t]["accuracy"] for p in found if t in p["tasks"]] for t in TRANSFER_TASKS]
    return [spread_cell(values) for values in (*by_task, [part["AVG"] for part in found])]


def cost_section(views: Sequence[View]) -> Section:
    """Tabulate time and memory, by encoder."""
    rows = []
    for view in views:
        if parts := view.parts("cost"):
            where = f"{clean(parts[0]['device'])}, {plural(parts[0]['threads'], 'thread')}"
            cells = [
                spread_cell([scale * part[key] for part in parts if part.get(key) is not None], digits)
                for key, _, digits, scale in _COST
            ]
            rows.append((f"{view.name} ({where})", cells))
    head = ["", *(title for _, title, _, _ in _COST)]
    lead = "Milliseconds a sentence, median of three rounds; other work on the machine slows them."
    return Section("cost", "Cost", lead, [Table("Time and memory", head, [Group("", rows)])] if rows else [])
