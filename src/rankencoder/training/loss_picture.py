"""Draw the losses of a training run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure  # draws without a window, and knows nothing of pyplot
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from rankencoder.io.storage import new_file

# colours of Okabe and Ito, which colour-blind people can tell apart; the green is darker, as it colours text
_LOSSES = {"contrastive": ("contrastive loss", "#0072B2"), "weighted_rank": ("λ · rank loss", "#D55E00")}
_DEV_COLOUR = "#007A5A"


def draw_losses(history: Sequence[Mapping[str, float]], path: Path, *, title: str) -> None:
    """Draw the losses of each stage over the optimiser's steps, with the dev scores where there are any.

    The axis of the losses is logarithmic unless one is zero or less. Each curve is an SVG group whose id is
    its stage and key, such as "stage2-weighted_rank"; with "-raw" for the values behind a mean.

    :param history: What was logged: "stage", "step", "contrastive", and in some records "weighted_rank" (λ
        times the rank loss) and "dev".
    :param path: The SVG file to write.
    """
    stages = sorted({int(record["stage"]) for record in history if _LOSSES.keys() & record.keys()})
    # a salt for the ids and no date: the same losses make the same file
    with rc_context({"svg.hashsalt": "rankencoder"}), new_file(path) as temporary:
        figure = Figure(
            figsize=(max(6.5, 5 * len(stages)), 4), dpi=100, layout=ConstrainedLayoutEngine(wspace=0.04)
        )
        figure.suptitle(title, fontsize=13, parse_math=False)
        for axes, stage in zip(figure.subplots(1, len(stages), squeeze=False)[0], stages, strict=True):
            _draw_stage(axes, [record for record in history if record["stage"] == stage], stage)
        figure.savefig(temporary, format="svg", metadata={"Date": None})


def running_mean(values: np.ndarray) -> np.ndarray:
    """Return the mean of the values around each, a twentieth of them all; near the ends, of fewer."""
    window = np.ones(2 * (len(values) // 40) + 1)
    return np.convolve(values, window, "same") / np.convolve(np.ones_like(values), window, "same")


def _draw_stage(axes: Axes, records: list[Mapping[str, float]], stage: int) -> None:
    losses = "contrastive loss" if stage == 1 else "contrastive and rank loss"
    axes.set_title(f"Stage {stage}: {losses}", fontsize=11)
    axes.set(xlabel="optimiser step", ylabel="loss")
    axes.locator_params(axis="x", integer=True, min_n_ticks=1)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    points = {key: [(r["step"], r[key]) for r in records if key in r] for key in (*_LOSSES, "dev")}
    curves = []
    for key, (label, colour) in _LOSSES.items():
        if points[key]:
            curves.append(_draw_curve(axes, points[key], f"stage{stage}-{key}", label=label, color=colour))
    if min(value for key in _LOSSES for _, value in points[key]) > 0:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    if points["dev"]:
        twin = axes.twinx()
        twin.set_ylabel("dev score", color=_DEV_COLOUR)
        twin.tick_params(axis="y", labelcolor=_DEV_COLOUR)
        style: dict[str, Any] = {"color": _DEV_COLOUR, "label": "dev score", "gid": f"stage{stage}-dev"}
        curves += twin.plot(*np.transpose(points["dev"]), "s--", markersize=4, linewidth=1.3, **style)
    # below the axes: inside, it would hide a part of some curve
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16)}
    axes.legend(handles=curves, ncols=len(curves), frameon=False, fontsize=10, **place)


def _draw_curve(axes: Axes, points: list[tuple[float, float]], gid: str, **style: Any) -> Line2D:
    steps, values = np.transpose(points)
    if len(values) <= 50:  # so few need no running mean
        return axes.plot(steps, values, "o-", markersize=3.5, linewidth=1.8, gid=gid, **style)[0]
    axes.plot(steps, values, linewidth=0.7, alpha=0.35, gid=f"{gid}-raw", **style)
    return axes.plot(steps, running_mean(values), linewidth=2.2, gid=gid, **style)[0]
