"""The curves: how scores change with the rank weight, the power and the size of the reference corpus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.report.document import Figure, Panel, Section
from rankencoder.report.encoder_views import View, common_name, set_order
from rankencoder.report.formatting import clean, number
from rankencoder.report.svg_plots import COLOURS, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Curves = dict[str, np.ndarray]
_Part = tuple[str, "Callable[[Axes], None]", list[list[Any]]]  # a curve in words, what draws it, its data


def curves_section(views: Sequence[View]) -> Section:
    """Draw all curves of all encoders."""
    found = [view for view in views if view.parts("curves")]
    if not found:
        return Section("curves")
    made = {"rank-weight": _weights, "power": _powers, "reference-size": _sizes}
    return Section("curves", [_figure(name, found, part_of) for name, part_of in made.items()])


def mean_curves(parts: Sequence[dict[str, Any]], curve: str, scores: str) -> _Curves:
    """Return the mean over runs of a curve of each set that all of them have; the average is the last."""
    runs = [part[curve][scores] for part in parts]
    shared = [name for name in runs[0] if all(name in run for run in runs)]
    ordered = sorted(set_order(shared), key=lambda name: name == "AVG")
    return {name: np.mean([run[name] for run in runs], axis=0) for name in ordered}


def _figure(name: str, views: Sequence[View], part_of: Callable[[View, list[Any]], _Part]) -> Figure:
    """Draw a panel for each encoder."""
    parts = [(view, *part_of(view, view.parts("curves"))) for view in views]
    return Figure(
        name,
        panels=[Panel(view.title, finding, draw) for view, finding, draw, _ in parts],
        data=[[view.name, *row] for view, _, _, rows in parts for row in rows],
        findings=[finding for _, finding, _, _ in parts],
        ranks=common_name(views, "ranks"),
    )


def _weights(view: View, parts: list[Any]) -> _Part:
    x, curves = parts[0]["rank-weight"]["x"], mean_curves(parts, "rank-weight", "scores")
    name, main = _main(curves, parts)
    best = int(np.argmax(main))
    finding = view.tell(
        f"the {name} is {number(main[0])} at rank weight 0 (cosine) and {number(main[-1])} at 1 "
        f"({view.similarity('ranks')} alone); it is highest, {number(main[best])}, at {x[best]:g}."
    )
    return finding, partial(_draw_weights, x=x, curves=curves, main=main), _rows(x, curves)


def _main(curves: _Curves, parts: Sequence[Any]) -> tuple[str, np.ndarray]:
    """Return the average of the seven sets, or else of all that there are, and what to call it."""
    runs = f", mean of {len(parts)} runs," if len(parts) > 1 else ""
    if "AVG" in curves:
        return f"average of the seven{runs}", curves["AVG"]
    name = f"score on {clean(next(iter(curves)))}" if len(curves) == 1 else f"average of {len(curves)} sets"
    return f"{name}{runs}", np.mean(list(curves.values()), axis=0)


def _rows(x: list[float], curves: _Curves) -> list[list[Any]]:
    return [[name, at, float(y)] for name, row in curves.items() for at, y in zip(x, row, strict=True)]


def _draw_weights(axes: Axes, x: list[float], curves: _Curves, main: np.ndarray) -> None:
    """Draw gains over cosine, each set named at the end of its line, a line of text apart from others."""
    axes.axhline(0, color=COLOURS["ink"], linewidth=1.2)
    for scores in curves.values():
        axes.plot(x, scores - scores[0], color=COLOURS["muted"], linewidth=1.1, alpha=0.7)
    axes.plot(x, main - main[0], color=COLOURS["blend"], linewidth=3.2)
    axes.set(xlim=(0, 1), xlabel="rank weight λ", ylabel="points over cosine")
    height, place = np.ptp(axes.get_ylim()), -np.inf
    ends = {clean(name): scores[-1] - scores[0] for name, scores in curves.items() if name != "AVG"}
    for name, end in sorted(ends.items(), key=lambda item: item[1]):
        place = max(end, place + 0.06 * height)
        axes.text(1.02, place, shortened(name, 14), va="center", fontsize=11, color=COLOURS["muted"])


def _powers(view: View, parts: list[Any]) -> _Part:
    x = parts[0]["power"]["x"]
    curves = {how: mean_curves(parts, "power", how) for how in ("centred", "plain")}
    lines = {how: _main(curve, parts)[1] for how, curve in curves.items()}
    name, by_weight = _main(mean_curves(parts, "rank-weight", "scores"), parts)
    best = int(np.argmax(lines["centred"]))
    power = f"{x[best]:+g}".replace("-", "−")
    finding = view.tell(
        f"the {name} is {number(by_weight[0])} by cosine and {number(lines['centred'][best])} by the best of "
        f"the centred powers, {power}."
    )
    rows = [[how, *row] for how, curve in curves.items() for row in _rows(x, curve)]
    return finding, partial(_draw_powers, x=x, lines=lines, cosine=by_weight[0]), rows


def _draw_powers(axes: Axes, x: list[float], lines: _Curves, cosine: float) -> None:
    _draw_cosine(axes, cosine)
    axes.plot(x, lines["centred"], "o-", color=COLOURS["other"])
    axes.plot(x, lines["plain"], "s-", color=COLOURS["ranks"])
    axes.set_xticks([-0.5, -0.25, 0, 0.25, 0.5], ["−½", "−¼", "0", "+¼", "+½"])
    axes.set_xlabel("power p of cos(Σᵖx, Σᵖy)")


def _draw_cosine(axes: Axes, score: float) -> None:
    axes.axhline(score, color=COLOURS["base"], linewidth=1.8, linestyle=(0, (4, 2)))
    axes.set_ylabel("score ×100")


def _sizes(view: View, parts: list[Any]) -> _Part:
    curve = parts[0]["reference-size"]
    x, mean, std = (curve[key] for key in ("x", "mean", "std"))
    cosine = parts[0]["rank-weight"]["scores"][curve["set"]][0]  # of the same run
    finding = view.tell(
        f"on {clean(curve['set'])}{view.run}, exact ranks score {number(mean[0])} with {x[0]:,} reference "
        f"sentences and {number(mean[-1])} with {x[-1]:,}; cosine has {number(cosine)}."
    )
    rows = [[curve["set"], *row] for row in zip(x, mean, std, strict=True)]
    return finding, partial(_draw_sizes, x=x, mean=mean, std=std, cosine=cosine), rows


def _draw_sizes(axes: Axes, x: list[int], mean: list[float], std: list[float], cosine: float) -> None:
    _draw_cosine(axes, cosine)
    low, high = np.subtract(mean, std), np.add(mean, std)
    axes.fill_between(x, low, high, color=COLOURS["ranks"], alpha=0.2, linewidth=0)
    axes.errorbar(x, mean, std, fmt="s-", color=COLOURS["ranks"], capsize=3, elinewidth=1.4)
    axes.set_xscale("log")
    kept = [value for value in x if value == x[-1] or x[-1] / value > 1.6]
    axes.set_xticks(kept, [f"{v:,}" if v < 10_000 else f"{v / 1000:,.0f}k" for v in kept])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("reference sentences")
