"""The sections about single pairs: shared neighbours, and the pairs that changed most."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from scipy.stats import pearsonr

from rankencoder.report.document import ChangedPairs, Figure, Panel, Section
from rankencoder.report.encoder_views import View, common_name
from rankencoder.report.formatting import clean, number
from rankencoder.report.svg_plots import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def neighbours_section(views: Sequence[View]) -> Section:
    """Draw the gain of ranks over cosine against the neighbours that pairs share."""
    found = [(view, parts[0]) for view in views if (parts := view.parts("neighbours"))]
    if not found:
        return Section("neighbours")
    keys = ("from", "to", "pairs", "overlap", "cosine", "ranks", "gain")
    figure = Figure(
        "overlap",
        panels=[_bin_panel(view, part) for view, part in found],
        data=[[view.name, *(one[key] for key in keys)] for view, part in found for one in part["bins"]],
        findings=[_correlation(view, part) for view, part in found],
        ranks=common_name([view for view, _ in found], "ranks"),
    )
    return Section("neighbours", [figure])


def _correlation(view: View, part: dict[str, Any]) -> str:
    where = clean(part["set"]) + view.run
    if part["correlation"] is None:
        return view.tell(f"too few bins of {where} hold enough pairs to correlate gain and overlap.")
    bins = [(one["overlap"], one["gain"]) for one in part["bins"] if one["gain"] is not None]
    low, high = pearsonr(*zip(*bins, strict=True)).confidence_interval()
    sign = "its sign is open" if low <= 0 <= high else "it is positive" if low > 0 else "it is negative"
    return view.tell(
        f"over {len(bins)} bins of {where}, the gain and the number of shared neighbours correlate with "
        f"{number(part['correlation'])} (Pearson; 95% interval {number(low)} to {number(high)}): {sign}."
    )


def _bin_panel(view: View, part: dict[str, Any]) -> Panel:
    bins = [one for one in part["bins"] if one["gain"] is not None]
    ranks = view.similarity("ranks")
    what = f"shared among the {part['neighbours']} nearest"
    label = f"{view.name}: gain of {ranks} in {len(bins)} bins, by neighbours {what}"
    draw = partial(_draw_bins, bins=bins, names=(what, f"gain of {ranks}, points"))
    return Panel(view.title, label, draw, height=270)


def _draw_bins(axes: Axes, bins: list[dict[str, Any]], names: tuple[str, str]) -> None:
    most = max((one["pairs"] for one in bins), default=1)
    sizes = [24 + 160 * one["pairs"] / most for one in bins]
    axes.axhline(0, color=COLOURS["ink"], linewidth=1.2)
    x, gains = ([one[key] for one in bins] for key in ("overlap", "gain"))
    axes.scatter(x, gains, s=sizes, color=COLOURS["ranks"], alpha=0.8, linewidth=0, zorder=3)
    axes.margins(0.1)
    axes.set(xlabel=names[0], ylabel=names[1])


def changed_section(views: Sequence[View]) -> Section:
    """List the pairs that came nearest to, and furthest from, their place by gold score."""
    return Section(
        "words", [block for v in views for part in v.parts("changed")[:1] for block in _changed(v, part)]
    )


def _changed(view: View, part: dict[str, Any]) -> list[ChangedPairs]:
    found = []
    for direction, moved in (("improved", "nearer to"), ("worsened", "further from")):
        ranks = view.similarity("ranks")
        text = f"by {ranks}, these pairs of {clean(part['set'])}{view.run} are {moved} their place"
        pairs = [(clean(p["a"]), clean(p["b"]), _scores(p)) for p in part["ranks"][direction]]
        if pairs:
            found.append(ChangedPairs(view.tell(text), ["people", "cosine", ranks], pairs))
    return found


def _scores(pair: dict[str, Any]) -> list[tuple[str, str]]:
    scores = (f"{pair['gold']:g}".replace("-", "−"), number(pair["base"], 3), number(pair["other"], 3))
    return [(s, f"{number(100 * place, 0)}%") for s, place in zip(scores, pair["places"], strict=True)]
