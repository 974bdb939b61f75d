"""The sections of a report, in their order."""

from __future__ import annotations

from collections.abc import Sequence

from rankencoder.evaluation.results import Result
from rankencoder.report.curves_section import curves_section
from rankencoder.report.document import Section
from rankencoder.report.encoder_views import views
from rankencoder.report.gains_section import all_gains, gains_section
from rankencoder.report.maps_section import maps_section
from rankencoder.report.origin_section import origin_section
from rankencoder.report.pair_sections import changed_section, neighbours_section
from rankencoder.report.score_sections import (
    cost_section,
    similar_section,
    space_section,
    sts_section,
    transfer_section,
)
from rankencoder.report.verdict_section import verdict_section

_NAMED = 3  # models in the title


def report_sections(results: Sequence[Result], aggregation: str) -> tuple[str, list[Section]]:
    """Return what to call the models, and all sections, also those that were not measured."""
    seen = views(results, aggregation)
    gains, over_first = all_gains(seen)
    labels = list(dict.fromkeys(view.label for view in seen))
    title = ", ".join(labels[:_NAMED]) + (f" and {len(labels) - _NAMED} more" if len(labels) > _NAMED else "")
    return title, [
        verdict_section(seen, gains, over_first),
        sts_section(seen, aggregation),
        gains_section(gains, over_first),
        similar_section(seen),
        space_section(seen),
        neighbours_section(seen),
        curves_section(seen),
        maps_section(seen),
        changed_section(seen),
        transfer_section(seen),
        cost_section(seen),
        origin_section(results),
    ]
