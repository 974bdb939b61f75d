"""The sections about single pairs: shared neighbours, how similarities are spread, pairs that changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.report.document import ChangedPairs, Figure, Panel, Section, Value
from rankencoder.report.encoder_views import View, common_name, set_order
from rankencoder.report.formatting import clean, listed, number
from rankencoder.report.svg_plots import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Z = 1.96  # standard errors of a 95% interval
_BINS = 40


def neighbours_section(views: Sequence[View]) -> Section:
    """Draw the gain of ranks over cosine against the neighbours that pairs share."""
    found = [(view, parts[0]) for view in views if (parts := view.parts("neighbours"))]
    if not found:
        return Section("neighbours")
    what = common_name([view for view, _ in found], "ranks")
    keys = ("from", "to", "pairs", "overlap", "cosine", "ranks", "gain")
    figure = Figure(
        ident="overlap",
        title=f"Gains of {what} over cosine, bin by bin",
        keys=[("pairs of one bin of cosines; larger for more pairs", "ranks", "dot")],
        panels=[panel for view, part in found for panel in _bin_panels(view, part)],
        head=["encoder", "cosine from", "cosine to", "pairs", "shared neighbours", "cosine", "ranks", "gain"],
        data=[[view.name, *(one[key] for key in keys)] for view, part in found for one in part["bins"]],
        finding=f"Above the line at 0, the order by {what} is better than by cosine; below it, worse.",
    )
    return Section("neighbours", [figure], [_correlation(view, part) for view, part in found])


def _correlation(view: View, part: dict[str, Any]) -> str:
    r, where = part["correlation"], clean(part["set"]) + view.run
    if r is None:
        return view.tell(f"too few bins of {where} hold enough pairs to correlate gain and overlap.")
    bins = sum(one["gain"] is not None for one in part["bins"])
    found = f"over {bins} bins of {where}, the gain and the number of shared neighbours correlate with "
    interval = fisher_interval(r, bins)
    if interval is None:
        return view.tell(f"{found}{number(r)} (Pearson; too few bins for an interval).")
    low, high = interval
    sign = "its sign is open" if low <= 0 <= high else "it is positive" if r > 0 else "it is negative"
    return view.tell(
        f"{found}{number(r)} (Pearson; 95% interval about {number(low)} to {number(high)}): {sign}."
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


def _bin_panels(view: View, part: dict[str, Any]) -> list[Panel]:
    bins = [one for one in part["bins"] if one["gain"] is not None]
    ranks = view.similarity("ranks")
    panels = []
    for what, x in (
        ("cosine of the pairs", [(one["from"] + one["to"]) / 2 for one in bins]),
        (f"shared among the {part['neighbours']} nearest", [one["overlap"] for one in bins]),
    ):
        label = f"{view.name}: gain of {ranks} in {len(bins)} bins, by {what}"
        title = f"By {what}" if view.is_alone else f"{view.name}: by {what}"
        draw = partial(_draw_bins, x=x, bins=bins, names=(what, f"gain of {ranks}, points"))
        panels.append(Panel(title, label, draw, height=270))
    return panels


def _draw_bins(axes: Axes, x: list[float], bins: list[dict[str, Any]], names: tuple[str, str]) -> None:
    most = max((one["pairs"] for one in bins), default=1)
    sizes = [24 + 160 * one["pairs"] / most for one in bins]
    axes.axhline(0, color=COLOURS["ink"], linewidth=1.2)
    gains = [one["gain"] for one in bins]
    axes.scatter(x, gains, s=sizes, color=COLOURS["ranks"], alpha=0.8, linewidth=0, zorder=3)
    axes.margins(0.1)
    axes.set(xlabel=names[0], ylabel=names[1])


def similarities_section(views: Sequence[View]) -> Section:
    """Draw how the similarities of each set are distributed, cosine next to ranks."""
    scored = [view for view in views if view.rows]
    return Section("similarities", [_histograms(view, f"similarities-{i}") for i, view in enumerate(scored)])


def _histograms(view: View, ident: str) -> Figure:
    kinds = {kind: view.similarity(kind) for kind in ("cosine", "ranks") if kind in view.rows}
    names = set_order(list(view.rows["cosine"].golds))
    values = {(name, kind): view.rows[kind].similarities[name][0] for name in names for kind in kinds}
    low, high = min(v.min() for v in values.values()), max(v.max() for v in values.values())
    edges = np.linspace(low, max(high, low + 1e-6), _BINS + 1)
    medians = {key: number(float(np.median(found))) for key, found in values.items()}
    panels, findings = [], []
    data: list[list[Value]] = []
    for name in names:
        counts: dict[str, np.ndarray] = {kind: np.histogram(values[name, kind], edges)[0] for kind in kinds}
        label = listed(f"{called} has the median {medians[name, kind]}" for kind, called in kinds.items())
        draw = partial(_draw_histogram, edges=edges, counts=counts)
        panels.append(Panel(clean(name), f"{clean(name)}: {label}", draw, height=165, width=320))
        findings.append(f"{clean(name)} {' and '.join(medians[name, kind] for kind in kinds)}")
        columns = zip(edges[:-1], edges[1:], *counts.values(), strict=True)
        data += [[name, float(a), float(b), *map(int, numbers)] for a, b, *numbers in columns]
    marks = {"cosine": ("base", "area"), "ranks": ("ranks", "line")}
    return Figure(
        ident=ident,
        title=view.title or "Pairs by their similarity",
        keys=[(called, *marks[kind]) for kind, called in kinds.items()],
        panels=panels,
        head=["set", "from", "to", *kinds.values()],
        data=data,
        finding=view.tell(f"medians by {listed(kinds.values())}{view.run}: {', '.join(findings)}."),
    )


def _draw_histogram(axes: Axes, edges: np.ndarray, counts: dict[str, np.ndarray]) -> None:
    axes.stairs(counts["cosine"], edges, fill=True, color=COLOURS["base"], alpha=0.45)
    if "ranks" in counts:
        axes.stairs(counts["ranks"], edges, color=COLOURS["ranks"], linewidth=2)
    axes.set_ylim(bottom=0)
    axes.grid(axis="x", visible=False)
    axes.locator_params(axis="y", nbins=3)
    axes.locator_params(axis="x", nbins=5)


def changed_section(views: Sequence[View]) -> Section:
    """List the pairs that came nearest to, and furthest from, their place by gold score."""
    return Section(
        "words", [block for v in views for part in v.parts("changed")[:1] for block in _changed(v, part)]
    )


def _changed(view: View, part: dict[str, Any]) -> list[ChangedPairs]:
    found = []
    for kind in ("ranks", "blend"):
        for direction, moved in (("improved", "nearer to"), ("worsened", "further from")):
            pairs = part.get(kind, {}).get(direction, [])
            where = clean(part["set"]) + view.run
            text = f"{view.does(kind, 'put', 'puts')} these pairs of {where} {moved} their place"
            similarities = ["people", "cosine", view.similarity(kind)]
            if pairs:
                shown = [(clean(pair["a"]), clean(pair["b"]), _scores(pair)) for pair in pairs]
                found.append(ChangedPairs(view.tell(text), similarities, shown, folded=kind == "blend"))
    return found


def _scores(pair: dict[str, Any]) -> list[tuple[str, str]]:
    scores = (f"{pair['gold']:g}".replace("-", "−"), number(pair["base"], 3), number(pair["other"], 3))
    return [(s, f"{number(100 * place, 0)}%") for s, place in zip(scores, pair["places"], strict=True)]
