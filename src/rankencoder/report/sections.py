"""The sections of a report, in their order."""

from __future__ import annotations

from collections.abc import Sequence

from rankencoder.evaluation.results import Result
from rankencoder.report.answer import answer_tiles, find_answer
from rankencoder.report.choice_section import choice_section
from rankencoder.report.comparison_blocks import comparison_blocks, set_tables
from rankencoder.report.cost_section import cost_section
from rankencoder.report.document import NextStep, Section, Tile, Tiles
from rankencoder.report.encoder_views import views
from rankencoder.report.origin_section import origin_section
from rankencoder.report.paper_section import paper_section
from rankencoder.report.yes_no_blocks import curve_figures, yes_no_tables

_NAMED = 3  # models in the title


def report_sections(results: Sequence[Result], *, papers: bool = False) -> tuple[str, list[Section]]:
    """Return what to call the models, and the sections that were measured; the first is the answer."""
    seen = views(results)
    labels = list(dict.fromkeys(view.label for view in seen))
    title = ", ".join(labels[:_NAMED]) + (f" and {len(labels) - _NAMED} more" if len(labels) > _NAMED else "")
    answer = find_answer(seen)
    if answer is None:
        nothing = Tile("Use this", "not known", "No pairs were scored.")
        tiles = Tiles([nothing], NextStep("evaluate"))
        found = [Section("answer", "", "", [tiles])]
    else:
        main, tables = comparison_blocks(answer), set_tables(answer, seen)
        opened = [answer_tiles(answer), *main, *curve_figures(answer)]
        more = [*tables, *yes_no_tables(answer)]
        found = [
            Section("answer", "", "", opened),
            Section("sets", "Set by set", "Every similarity on every set that was scored.", more),
            choice_section(seen),
        ]
    found.append(cost_section(seen))
    found += [paper_section()] if papers else []
    return title, [section for section in [*found, origin_section(results)] if section.blocks]
