"""The section on cost: time and memory of each encoder."""

from __future__ import annotations

from collections.abc import Sequence

from rankencoder.formatting import clean, plural
from rankencoder.report.document import Group, Section, Table, spread_cell
from rankencoder.report.encoder_views import View

_COST = (  # what was measured, its title, digits, and scale
    ("model_ms", "encoder, ms", 3, 1),
    ("form_ms", "rank part, ms", 3, 1),
    ("reference_seconds", "reference, s", 1, 1),
    ("form_bytes", "form, MiB", 1, 2**-20),
    ("vector_bytes", "vector, KiB", 1, 2**-10),
)


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
