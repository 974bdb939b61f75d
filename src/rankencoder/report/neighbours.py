"""The figure of shared neighbours: where two sentences rank the same reference sentences high."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from rankencoder.report.document import Figure, Key, Panel, Section, Value, clean, number
from rankencoder.report.drawing import COLOURS, WIDTH, axes_of, to_svg
from rankencoder.report.tables import missing
from rankencoder.report.views import View

_CLEAR, _NONE = 0.5, 0.2  # correlations from which on, and below which, the paper's claim is (not) seen


def neighbours_section(views: Sequence[View]) -> Section:
    """Draw the gain of ranks over cosine against the neighbours that pairs share."""
    heading = "Shared neighbours"
    found = [(view, parts[0]) for view in views if (parts := view.parts("neighbours"))]
    if not found:
        return missing("neighbours", heading, "`rankencoder evaluate MODEL --task neighbours`")
    panels: list[Panel] = []
    data: list[list[Value]] = []
    keys = ("from", "to", "pairs", "overlap", "cosine", "ranks", "gain")
    for i, (view, part) in enumerate(found):
        panels += _panels(view, part, i)
        data += [[view.name, *(one[key] for key in keys)] for one in part["bins"]]
    head = ["encoder", "cosine from", "cosine to", "pairs", "shared neighbours", "cosine", "ranks", "gain"]
    legend = [Key("pairs of one bin of cosines; larger for more pairs", "ranks", "dot")]
    reading = "Above the line at 0, ranks order the pairs of a bin better than cosine; below it, worse."
    figure = Figure("overlap", "Where ranks gain over cosine", reading, legend, panels, head, data)
    lead = (
        "The paper explains gains by neighbours: where two sentences have many nearest reference sentences "
        "in common, ranks should add more. Pairs are put into ten bins by their cosine, and both "
        "similarities are scored within each bin."
    )
    return Section(
        "neighbours", heading, lead, [figure], findings=[_told(view, part) for view, part in found]
    )


def _told(view: View, part: dict[str, Any]) -> str:
    r, where = part["correlation"], clean(part["set"]) + view.run
    if r is None:
        return view.tell(f"too few bins of {where} hold enough pairs to correlate gain and overlap.")
    seen = (
        "as the paper says" if r >= _CLEAR else "which does not bear the paper out" if r < _NONE else "weakly"
    )
    return view.tell(
        f"over the bins of {where}, the gain and the number of shared neighbours correlate with {number(r)} "
        f"(Pearson), {seen}."
    )


def _panels(view: View, part: dict[str, Any], i: int) -> list[Panel]:
    bins = [one for one in part["bins"] if one["gain"] is not None]
    middles = [(one["from"] + one["to"]) / 2 for one in bins]
    shared = [one["overlap"] for one in bins]
    found = []
    for ident, x, what in (
        ("c", middles, "cosine of the pairs"),
        ("o", shared, f"shared among the {part['neighbours']} nearest"),
    ):
        told = [
            f"{number(at)}: {number(one['gain'], 1, signed=True)}" for at, one in zip(x, bins, strict=True)
        ]
        label = f"{view.name}: gain of ranks by {what}: {'; '.join(told)}"
        title = f"By {what}" if view.is_alone else f"{view.name}: by {what}"
        found.append(Panel(title, partial(_draw, x, bins, what, f"overlap{i}{ident}", label), WIDTH))
    return found


def _draw(x: list[float], bins: list[dict[str, Any]], what: str, ident: str, label: str) -> str:
    most = max((one["pairs"] for one in bins), default=1)
    with axes_of(270) as axes:
        axes.axhline(0, color=COLOURS["ink"], linewidth=1.2)
        sizes = [24 + 160 * one["pairs"] / most for one in bins]
        gains = [one["gain"] for one in bins]
        axes.scatter(x, gains, s=sizes, color=COLOURS["ranks"], alpha=0.8, linewidth=0, zorder=3)
        axes.margins(0.1)
        axes.set_xlabel(what)
        axes.set_ylabel("gain of ranks, points")
        return to_svg(axes, ident, label)
