"""The figure of shared neighbours: where two sentences rank the same reference sentences high."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from rankencoder.report.document import Figure, Key, Panel, Section, Value
from rankencoder.report.drawing import COLOURS, WIDTH, axes_of, to_svg
from rankencoder.report.formatting import clean, number
from rankencoder.report.tables_section import missing
from rankencoder.report.views import View, common_name

_Z = 1.96  # standard errors of a 95% interval


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
    what = common_name([view for view, _ in found], "ranks")
    reading = f"Above the line at 0, the order by {what} is better than by cosine; below it, worse."
    figure = Figure(
        "overlap", f"Gains of {what} over cosine, bin by bin", reading, legend, panels, head, data
    )
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
    bins = sum(one["gain"] is not None for one in part["bins"])
    told = f"over {bins} bins of {where}, the gain and the number of shared neighbours correlate with "
    interval = fisher_interval(r, bins)
    if interval is None:
        return view.tell(f"{told}{number(r)} (Pearson; too few bins for an interval).")
    low, high = interval
    sign = "its sign is open" if low <= 0 <= high else "it is positive" if r > 0 else "it is negative"
    return view.tell(
        f"{told}{number(r)} (Pearson; 95% interval about {number(low)} to {number(high)}): {sign}."
    )


def fisher_interval(r: float, n: int) -> tuple[float, float] | None:
    """Return the approximate 95% interval of a correlation of n points, by Fisher's z.

    >>> [round(end, 2) for end in fisher_interval(0.8, 9)]
    [0.29, 0.96]
    """
    if n < 4 or abs(r) >= 1:
        return None
    z, width = math.atanh(r), _Z / math.sqrt(n - 3)
    return math.tanh(z - width), math.tanh(z + width)


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
        label = f"{view.name}: gain of {view.similarity('ranks')} by {what}: {'; '.join(told)}"
        title = f"By {what}" if view.is_alone else f"{view.name}: by {what}"
        names = (what, f"gain of {view.similarity('ranks')}, points")
        draw = partial(_draw, x, bins, names, f"overlap{i}{ident}", label)
        found.append(Panel(title, draw, WIDTH))
    return found


def _draw(x: list[float], bins: list[dict[str, Any]], names: tuple[str, str], ident: str, label: str) -> str:
    most = max((one["pairs"] for one in bins), default=1)
    with axes_of(270) as axes:
        axes.axhline(0, color=COLOURS["ink"], linewidth=1.2)
        sizes = [24 + 160 * one["pairs"] / most for one in bins]
        gains = [one["gain"] for one in bins]
        axes.scatter(x, gains, s=sizes, color=COLOURS["ranks"], alpha=0.8, linewidth=0, zorder=3)
        axes.margins(0.1)
        axes.set_xlabel(names[0])
        axes.set_ylabel(names[1])
        return to_svg(axes, ident, label)
