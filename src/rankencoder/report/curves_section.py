"""The curves: how scores change with the rank weight, the power and the size of the reference corpus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.report.document import Figure, Panel, Section, Value
from rankencoder.report.encoder_views import View, common_name, set_order
from rankencoder.report.formatting import clean, number
from rankencoder.report.svg_plots import COLOURS, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DASHED = (0, (4, 2))
_EXACT = (
    "This curve is of exact ranks, not the encoder’s own form: its end can differ a little from the tables."
)
_Curves = dict[str, np.ndarray]
_Part = tuple[str, "Callable[[Axes], None]", list[list[Value]]]  # a curve in words, what draws it, its data


def curves_section(views: Sequence[View]) -> Section:
    """Draw all curves of all encoders."""
    found = [view for view in views if view.parts("curves")]
    if not found:
        return Section("curves")
    exact = all((view.form or {}).get("name") == "exact" for view in found)
    weights = _figure(
        found,
        _weights,
        ident="rank-weight",
        title=f"Rank weight λ, from cosine to {common_name(found, 'ranks')}",
        keys=[("average", "blend", "line"), ("single sets", "muted", "line")],
        head=["encoder", "set", "rank weight", "Spearman ×100"],
    )
    powers = _figure(
        found,
        _powers,
        ident="power",
        title="Powers of the covariance",
        keys=[
            ("centred", "other", "dot"),
            ("not centred: 0 is cosine, +½ close to ranks", "ranks", "square"),
            ("cosine", "base", "dashes"),
        ],
        head=["encoder", "form", "set", "power", "Spearman ×100"],
    )
    sizes = _figure(
        found,
        _sizes,
        ident="reference-size",
        title="Size of the reference corpus",
        keys=[
            ("exact ranks, mean ± standard deviation of three draws", "ranks", "square"),
            ("cosine", "base", "dashes"),
        ],
        head=["encoder", "set", "reference sentences", "mean", "standard deviation"],
        finding="" if exact else _EXACT,
    )
    return Section("curves", [weights, powers, sizes])


def _figure(views: Sequence[View], part_of: Callable[[View, list[Any]], _Part], **about: Any) -> Figure:
    """Draw a panel for each encoder."""
    parts = [(view, *part_of(view, view.parts("curves"))) for view in views]
    return Figure(
        panels=[Panel(view.title, finding, draw) for view, finding, draw, _ in parts],
        data=[[view.name, *row] for view, _, _, rows in parts for row in rows],
        findings=[finding for _, finding, _, _ in parts],
        **about,
    )


def _weights(view: View, parts: list[Any]) -> _Part:
    x, curve = parts[0]["rank-weight"]["x"], _mean([part["rank-weight"]["scores"] for part in parts])
    name, main = _main(curve, parts)
    best = int(np.argmax(main))
    finding = view.tell(
        f"the {name} is {number(main[0])} at rank weight 0 (cosine) and {number(main[-1])} at 1 "
        f"({view.similarity('ranks')} alone); it is highest, {number(main[best])}, at {x[best]:g}."
    )
    return finding, partial(_draw_weights, x=x, curve=curve, main=main), _rows(x, curve)


def _mean(curves: Sequence[dict[str, list[float]]]) -> _Curves:
    """Return the mean curve over runs, for the sets that all of them have; their average is the last."""
    shared = [name for name in curves[0] if all(name in curve for curve in curves)]
    ordered = sorted(set_order(shared), key=lambda name: name == "AVG")
    return {name: np.mean([curve[name] for curve in curves], axis=0) for name in ordered}


def _main(curve: _Curves, parts: Sequence[Any] = ()) -> tuple[str, np.ndarray]:
    """Return the average of the seven sets, or else of all that there are, and what to call it."""
    runs = f", mean of {len(parts)} runs," if len(parts) > 1 else ""
    if "AVG" in curve:
        return f"average of the seven{runs}", curve["AVG"]
    name = f"score on {clean(next(iter(curve)))}" if len(curve) == 1 else f"average of {len(curve)} sets"
    return f"{name}{runs}", np.mean(list(curve.values()), axis=0)


def _rows(x: list[float], curve: _Curves) -> list[list[Value]]:
    return [[name, at, float(score)] for name, row in curve.items() for at, score in zip(x, row, strict=True)]


def _draw_weights(axes: Axes, x: list[float], curve: _Curves, main: np.ndarray) -> None:
    axes.axhline(0, color=COLOURS["ink"], linewidth=1.2)
    for scores in curve.values():
        axes.plot(x, scores - scores[0], color=COLOURS["muted"], linewidth=1.1, alpha=0.7)
    axes.plot(x, main - main[0], color=COLOURS["blend"], linewidth=3.2)
    _name_ends(axes, {clean(n): float(s[-1] - s[0]) for n, s in curve.items() if n != "AVG"})
    axes.set(xlim=(0, 1), xlabel="rank weight λ", ylabel="points over cosine")


def _name_ends(axes: Axes, ends: dict[str, float]) -> None:
    """Name lines at their right ends, pushed apart where they would overlap."""
    low, high = axes.get_ylim()
    gap = 0.06 * (high - low)
    ordered = sorted(ends, key=lambda name: ends[name])
    places = [ends[name] for name in ordered]
    for _ in range(200):
        for i in range(len(places) - 1):
            overlap = max(0.0, gap - (places[i + 1] - places[i]))
            places[i] -= overlap / 2
            places[i + 1] += overlap / 2
    for name, place in zip(ordered, places, strict=True):
        axes.text(1.02, place, shortened(name, 14), va="center", fontsize=11, color=COLOURS["muted"])


def _powers(view: View, parts: list[Any]) -> _Part:
    x = parts[0]["power"]["x"]
    curves = {how: _mean([part["power"][how] for part in parts]) for how in ("centred", "plain")}
    name, by_cosine = _main(_mean([part["rank-weight"]["scores"] for part in parts]), parts)
    cosine = float(by_cosine[0])
    score, power, how = max(
        (float(score), power, how)
        for how, curve in curves.items()
        for power, score in zip(x, _main(curve)[1], strict=True)
        if how == "centred" or power != 0  # power 0, not centred, is cosine itself
    )
    best = (f"{power:+g}" if power else "0").replace("-", "−") + (", centred," if how == "centred" else "")
    finding = view.tell(
        f"the {name} is {number(cosine)} by cosine; the best of the powers, {best} "
        f"{'is' if score > cosine else 'is not'} above it with {number(score)}."
    )
    rows: list[list[Value]] = [[how, *row] for how, curve in curves.items() for row in _rows(x, curve)]
    return finding, partial(_draw_powers, x=x, curves=curves, cosine=cosine), rows


def _draw_powers(axes: Axes, x: list[float], curves: dict[str, _Curves], cosine: float) -> None:
    axes.axhline(cosine, color=COLOURS["base"], linewidth=1.8, linestyle=_DASHED)
    for how, colour, mark in (("centred", "other", "o"), ("plain", "ranks", "s")):
        axes.plot(x, _main(curves[how])[1], mark, color=COLOURS[colour], linestyle="-")
    axes.set_xticks([-0.5, -0.25, 0, 0.25, 0.5], ["−½", "−¼", "0", "+¼", "+½"])
    axes.set(xlabel="power p of cos(Σᵖx, Σᵖy)", ylabel="Spearman ×100")


def _sizes(view: View, parts: list[Any]) -> _Part:
    curve = parts[0]["reference-size"]
    cosine = parts[0]["rank-weight"]["scores"].get(curve["set"], [None])[0]  # of the same run
    against = f"; cosine has {number(cosine)}" if cosine is not None else ""
    finding = view.tell(
        f"on {clean(curve['set'])}{view.run}, exact ranks score {number(curve['mean'][0])} with "
        f"{curve['x'][0]:,} reference sentences and {number(curve['mean'][-1])} with "
        f"{curve['x'][-1]:,}{against}."
    )
    points = zip(curve["x"], curve["mean"], curve["std"], strict=True)
    return finding, partial(_draw_sizes, curve=curve, cosine=cosine), [[curve["set"], *row] for row in points]


def _draw_sizes(axes: Axes, curve: dict[str, Any], cosine: float | None) -> None:
    x, mean, std = (np.array(curve[key], dtype=float) for key in ("x", "mean", "std"))
    if cosine is not None:
        axes.axhline(cosine, color=COLOURS["base"], linewidth=1.8, linestyle=_DASHED)
    axes.fill_between(x, mean - std, mean + std, color=COLOURS["ranks"], alpha=0.2, linewidth=0)
    axes.errorbar(x, mean, std, fmt="s-", color=COLOURS["ranks"], capsize=3, elinewidth=1.4)
    axes.set_xscale("log")
    kept = [value for value in x if value == x[-1] or x[-1] / value > 1.6]
    axes.set_xticks(kept, [f"{v:,.0f}" if v < 10_000 else f"{v / 1000:,.0f}k" for v in kept])
    axes.set_xticks([], minor=True)
    axes.set(xlabel="reference sentences", ylabel="Spearman ×100")
