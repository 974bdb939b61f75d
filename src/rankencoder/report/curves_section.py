"""The curves: how scores change with the rank weight, the power and the size of the reference corpus."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.report.document import Figure, Key, Panel, Section, Value
from rankencoder.report.drawing import COLOURS, WIDTH, axes_of, shortened, to_svg
from rankencoder.report.formatting import clean, number
from rankencoder.report.tables_section import missing
from rankencoder.report.views import View, common_name, set_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEIGHT = 300
_DASHED = (0, (4, 2))
_EXACT = (
    "This curve is of exact ranks, whatever the encoder’s own form, so its last point can differ a little "
    "from the tables."
)

_Found = Sequence[tuple[View, list[Any]]]
_Curves = dict[str, np.ndarray]


def curves_section(views: Sequence[View]) -> Section:
    """Draw all curves of all encoders."""
    heading = "Rank weight, power and reference size"
    found = [(view, parts) for view in views if (parts := view.parts("curves"))]
    if not found:
        return missing("curves", heading, "`rankencoder evaluate MODEL --task curves`")
    figures = [_weights(found), _powers(found), _sizes(found)]
    changes = [_change(view, parts) for view, parts in found]
    lead = (
        "What would happen with other settings. These curves describe; they choose nothing: to pick the top "
        "of a curve drawn from test sets is to read off the answer."
    )
    return Section("curves", heading, lead, list(figures), findings=changes)


def _change(view: View, parts: Sequence[Any]) -> str:
    name, main = _main(_mean([part["rank-weight"]["scores"] for part in parts]))
    gain = number(float(main[-1] - main[0]), signed=True)
    return view.tell(f"from cosine to {view.similarity('ranks')} alone, the {name} changes by {gain} points.")


def _mean(curves: Sequence[dict[str, list[float]]]) -> _Curves:
    """Return the mean curve over runs, for the sets that all of them have."""
    names = [name for name in curves[0] if all(name in curve for curve in curves)]
    ordered = [*set_order([n for n in names if n != "AVG"]), *(["AVG"] if "AVG" in names else [])]
    return {name: np.mean([curve[name] for curve in curves], axis=0) for name in ordered}


def _main(curve: _Curves) -> tuple[str, np.ndarray]:
    """Return the average of the seven sets, or else of all that there are."""
    if "AVG" in curve:
        return "average of the seven", curve["AVG"]
    name = f"score on {clean(next(iter(curve)))}" if len(curve) == 1 else f"average of {len(curve)} sets"
    return name, np.mean(list(curve.values()), axis=0)


def _runs(parts: Sequence[Any]) -> str:
    return f", mean of {len(parts)} runs," if len(parts) > 1 else ""


def _weights(found: _Found) -> Figure:
    panels: list[Panel] = []
    data: list[list[Value]] = []
    told = []
    for i, (view, parts) in enumerate(found):
        x = parts[0]["rank-weight"]["x"]
        curve = _mean([part["rank-weight"]["scores"] for part in parts])
        name, main = _main(curve)
        best = int(np.argmax(main))
        told.append(
            view.tell(
                f"the {name}{_runs(parts)} is {number(main[0])} at rank weight 0 (cosine) and "
                f"{number(main[-1])} at 1 ({view.similarity('ranks')} alone); it is highest, "
                f"{number(main[best])}, at {x[best]:g}."
            )
        )
        panels.append(Panel(view.title, partial(_draw_weights, x, curve, f"weight{i}", told[-1]), WIDTH))
        data += [[view.name, n, w, float(s)] for n, row in curve.items() for w, s in zip(x, row, strict=True)]
    keys = [Key("average", "blend", "line"), Key("single sets", "muted", "line")]
    head = ["encoder", "set", "rank weight", "Spearman ×100"]
    title = f"Rank weight λ, from cosine to {common_name([view for view, _ in found], 'ranks')}"
    return Figure("rank-weight", title, "", keys, panels, head, data, told)


def _draw_weights(x: list[float], curve: _Curves, ident: str, label: str) -> str:
    main = _main(curve)[1]
    with axes_of(_HEIGHT) as axes:
        axes.axhline(0, color=COLOURS["ink"], linewidth=1.2)
        for scores in curve.values():
            axes.plot(x, scores - scores[0], color=COLOURS["muted"], linewidth=1.1, alpha=0.7)
        axes.plot(x, main - main[0], color=COLOURS["blend"], linewidth=3.2)
        _name_ends(axes, {clean(n): float(s[-1] - s[0]) for n, s in curve.items() if n != "AVG"})
        axes.set_xlim(0, 1.0)
        axes.set_xlabel("rank weight λ")
        axes.set_ylabel("points over cosine")
        return to_svg(axes, ident, label)


def _name_ends(axes: Axes, ends: dict[str, float]) -> None:
    """Name lines at their right ends, pushed apart where they would overlap."""
    low, high = axes.get_ylim()
    gap = 0.06 * (high - low)
    ordered = sorted(ends, key=lambda name: ends[name])
    places = [ends[name] for name in ordered]
    for _ in range(200):
        for i in range(len(places) - 1):
            overlap = gap - (places[i + 1] - places[i])
            if overlap > 0:
                places[i] -= overlap / 2
                places[i + 1] += overlap / 2
    for name, place in zip(ordered, places, strict=True):
        axes.text(1.02, place, shortened(name, 14), va="center", fontsize=11, color=COLOURS["muted"])


def _powers(found: _Found) -> Figure:
    panels: list[Panel] = []
    data: list[list[Value]] = []
    told = []
    for i, (view, parts) in enumerate(found):
        x = parts[0]["power"]["x"]
        curves = {how: _mean([part["power"][how] for part in parts]) for how in ("centred", "plain")}
        cosine = float(_main(_mean([part["rank-weight"]["scores"] for part in parts]))[1][0])
        told.append(view.tell(_powers_told(x, curves, cosine, _runs(parts))))
        draw = partial(_draw_powers, x, curves, cosine, f"power{i}", told[-1])
        panels.append(Panel(view.title, draw, WIDTH))
        data += [
            [view.name, how, name, power, float(score)]
            for how, curve in curves.items()
            for name, row in curve.items()
            for power, score in zip(x, row, strict=True)
        ]
    keys = [
        Key("centred", "other", "dot"),
        Key("not centred: 0 is cosine, +½ close to ranks", "ranks", "square"),
        Key("cosine", "base", "dashes"),
    ]
    head = ["encoder", "form", "set", "power", "Spearman ×100"]
    return Figure("power", "Powers of the covariance", "", keys, panels, head, data, told)


def _powers_told(x: list[float], curves: dict[str, _Curves], cosine: float, runs: str) -> str:
    name = _main(curves["plain"])[0]
    tops = []
    for how, curve in curves.items():
        main = _main(curve)[1]
        # power 0, not centred, is cosine itself
        others = [j for j in range(len(x)) if how == "centred" or x[j] != 0]
        best = max(others, key=lambda j, main=main: main[j])  # type: ignore[misc]
        tops.append((float(main[best]), f"{x[best]:+g}".replace("-", "−"), how))
    score, power, how = max(tops)
    power = "0" if power == "+0" else power
    best_name = f"{power}{', centred,' if how == 'centred' else ''}"
    verb = "is above" if score > cosine else "is not above"
    return (
        f"the {name}{runs} is {number(cosine)} by cosine; the best of the powers, {best_name} {verb} it with "
        f"{number(score)}."
    )


def _draw_powers(x: list[float], curves: dict[str, _Curves], cosine: float, ident: str, label: str) -> str:
    with axes_of(_HEIGHT) as axes:
        axes.axhline(cosine, color=COLOURS["base"], linewidth=1.8, linestyle=_DASHED)
        for how, colour, mark in (("centred", "other", "o"), ("plain", "ranks", "s")):
            axes.plot(x, _main(curves[how])[1], mark, color=COLOURS[colour], linestyle="-")
        axes.set_xticks([-0.5, -0.25, 0, 0.25, 0.5], ["−½", "−¼", "0", "+¼", "+½"])
        axes.set_xlabel("power p of cos(Σᵖx, Σᵖy)")
        axes.set_ylabel("Spearman ×100")
        return to_svg(axes, ident, label)


def _sizes(found: _Found) -> Figure:
    panels: list[Panel] = []
    data: list[list[Value]] = []
    told = []
    for i, (view, parts) in enumerate(found):
        curve = parts[0]["reference-size"]
        cosine = parts[0]["rank-weight"]["scores"].get(curve["set"], [None])[0]  # of the same run
        against = f"; cosine has {number(cosine)}" if cosine is not None else ""
        told.append(
            view.tell(
                f"on {clean(curve['set'])}{view.run}, exact ranks score {number(curve['mean'][0])} with "
                f"{curve['x'][0]:,} reference sentences and {number(curve['mean'][-1])} with "
                f"{curve['x'][-1]:,}{against}."
            )
        )
        panels.append(Panel(view.title, partial(_draw_sizes, curve, cosine, f"size{i}", told[-1]), WIDTH))
        rows = zip(curve["x"], curve["mean"], curve["std"], strict=True)
        data += [[view.name, curve["set"], *values] for values in rows]
    keys = [Key("exact ranks, mean ± standard deviation of three draws", "ranks", "square")]
    keys.append(Key("cosine", "base", "dashes"))
    head = ["encoder", "set", "reference sentences", "mean", "standard deviation"]
    exact = all((view.form or {}).get("name") == "exact" for view, _ in found)
    note = "" if exact else _EXACT
    return Figure("reference-size", "Size of the reference corpus", note, keys, panels, head, data, told)


def _draw_sizes(curve: dict[str, Any], cosine: float | None, ident: str, label: str) -> str:
    x, mean, std = (np.array(curve[key], dtype=float) for key in ("x", "mean", "std"))
    with axes_of(_HEIGHT) as axes:
        if cosine is not None:
            axes.axhline(cosine, color=COLOURS["base"], linewidth=1.8, linestyle=_DASHED)
        axes.fill_between(x, mean - std, mean + std, color=COLOURS["ranks"], alpha=0.2, linewidth=0)
        axes.errorbar(x, mean, std, fmt="s-", color=COLOURS["ranks"], capsize=3, elinewidth=1.4)
        axes.set_xscale("log")
        kept = [value for value in x if value == x[-1] or x[-1] / value > 1.6]
        names = [f"{value:,.0f}" if value < 10_000 else f"{value / 1000:,.0f}k" for value in kept]
        axes.set_xticks(kept, names)
        axes.set_xticks([], minor=True)
        axes.set_xlabel("reference sentences")
        axes.set_ylabel("Spearman ×100")
        return to_svg(axes, ident, label)
