"""The sections of a report, in their order."""

from __future__ import annotations

from collections.abc import Sequence

from rankencoder.evaluation.results import Result
from rankencoder.report.curves_section import curves_section
from rankencoder.report.document import Section
from rankencoder.report.gains import all_gains
from rankencoder.report.histograms import similarities_section
from rankencoder.report.maps_section import maps_section
from rankencoder.report.neighbours_section import neighbours_section
from rankencoder.report.origin import cost_section, origin_section
from rankencoder.report.plots import gains_section
from rankencoder.report.space_section import space_section
from rankencoder.report.tables_section import similar_section, sts_section, transfer_section
from rankencoder.report.verdict import verdict_section
from rankencoder.report.views import View, views
from rankencoder.report.words import words_section

_NAMED = 3  # models in the title


def document(results: Sequence[Result], aggregation: str = "all") -> tuple[str, list[Section]]:
    """Return the title and all sections; a section without data says what to run."""
    seen = views(results, aggregation)
    gains, over_first = all_gains(seen)
    made = [
        verdict_section(seen, gains, over_first),
        sts_section(seen, aggregation),
        gains_section(gains, over_first, aggregation),
        similar_section(seen),
        space_section(seen),
        neighbours_section(seen),
        similarities_section(seen),
        curves_section(seen),
        maps_section(seen),
        words_section(seen),
        transfer_section(seen),
        cost_section(seen),
        origin_section(results),
    ]
    return _title(seen), made


def _title(seen: Sequence[View]) -> str:
    """Name the report by its models."""
    labels = list(dict.fromkeys(view.label for view in seen))
    shown = ", ".join(labels[:_NAMED])
    return shown if len(labels) <= _NAMED else f"{shown} and {len(labels) - _NAMED} more"
