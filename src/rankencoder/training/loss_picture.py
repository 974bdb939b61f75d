"""The losses of a training run as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.errors import InputError
from rankencoder.io.storage import new_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

# colours of Okabe and Ito, which colour-blind people can tell apart
_LOSSES = {"contrastive": ("contrastive loss", "#0072B2"), "weighted_rank": ("λ · rank loss", "#D55E00")}
_DEV_COLOUR = "#007A5A"  # their green, darker: it is also the colour of text
_BESIDE = 4  # stages
_FEW = 50
"""So many points are drawn as they are, without a running mean."""


def draw_losses(history: Sequence[Mapping[str, float]], path: Path, *, title: str) -> None:
    """Draw the losses of each stage over the optimiser's steps, with the dev scores where there are any.

    The axis of the losses is logarithmic unless one is zero or less. In a ``.svg`` file each curve is a group
    whose id is its stage and key, such as "stage2-weighted_rank"; with "-raw" for the values behind a mean.

    :param history: What was logged: "stage" (1, 2, and more with rounds), "step", "contrastive", and in some
        records "weighted_rank" (λ times the rank loss) and "dev".
    :param path: The ``.svg`` or ``.png`` file to write.
    :raises InputError: If there is no loss to draw, or matplotlib is not installed.
    """
    path = Path(path)
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("svg", "png"):
        raise InputError(f"{path}: losses are drawn as .svg or .png; name the file so")
    numbers = sorted({int(record["stage"]) for record in history})
    records = {stage: [record for record in history if record["stage"] == stage] for stage in numbers}
    stages = [stage for stage in numbers if any(_LOSSES.keys() & record.keys() for record in records[stage])]
    if not stages:
        raise InputError("no losses were logged, so there are none to draw; log more often")
    matplotlib, figure_class = _import_matplotlib()
    columns = min(len(stages), _BESIDE)
    rows = -(-len(stages) // columns)
    # a salt for the ids and no date: the same losses make the same file
    with matplotlib.rc_context({"svg.hashsalt": "rankencoder"}), new_file(path) as temporary:
        figure = figure_class(
            figsize=(5 * columns if len(stages) > 1 else 6.5, 4 * rows), dpi=100, layout="constrained"
        )
        figure.suptitle(title, fontsize=13, parse_math=False)
        figure.get_layout_engine().set(wspace=0.04)
        for number, stage in enumerate(stages, start=1):
            _draw_stage(figure.add_subplot(rows, columns, number), records[stage], stage)
        figure.savefig(temporary, format=kind, metadata={"Date": None} if kind == "svg" else None)


def running_mean(values: np.ndarray) -> np.ndarray:
    """Return the mean of the values around each, a twentieth of them all; near the ends, of fewer."""
    window = np.ones(2 * (len(values) // 40) + 1)
    return np.convolve(values, window, "same") / np.convolve(np.ones_like(values), window, "same")


def _draw_stage(axes: Axes, records: list[Mapping[str, float]], stage: int) -> None:
    losses = "contrastive loss" if stage == 1 else "contrastive and rank loss"
    axes.set_title(f"Stage {stage}: {losses}", fontsize=11)
    axes.set_xlabel("optimiser step")
    axes.locator_params(axis="x", integer=True, min_n_ticks=1)
    axes.set_ylabel("loss")
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    curves, drawn = [], []
    for key, (label, colour) in _LOSSES.items():
        steps, values = _points(records, key)
        if len(values):
            curves.append(_draw_curve(axes, steps, values, f"stage{stage}-{key}", label=label, color=colour))
            drawn.append(values)
    _scale(axes, np.concatenate(drawn))
    steps, values = _points(records, "dev")
    if len(values):
        curves.append(_draw_dev(axes, steps, values, f"stage{stage}-dev"))
    # below the axes: inside, it would hide a part of some curve
    axes.legend(
        handles=curves,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.16),
        ncols=len(curves),
        frameon=False,
        fontsize=10,
    )


def _points(records: list[Mapping[str, float]], key: str) -> tuple[np.ndarray, np.ndarray]:
    found = [(record["step"], record[key]) for record in records if key in record]
    steps, values = np.array(found, dtype=float).reshape(-1, 2).T
    return steps, values


def _draw_curve(axes: Axes, steps: np.ndarray, values: np.ndarray, gid: str, **style: Any) -> Line2D:
    if len(values) <= _FEW:
        return axes.plot(steps, values, "o-", markersize=3.5, linewidth=1.8, gid=gid, **style)[0]
    axes.plot(steps, values, linewidth=0.7, alpha=0.35, gid=f"{gid}-raw", **style)
    return axes.plot(steps, running_mean(values), linewidth=2.2, gid=gid, **style)[0]


def _draw_dev(axes: Axes, steps: np.ndarray, values: np.ndarray, gid: str) -> Line2D:
    twin = axes.twinx()
    twin.set_ylabel("dev score", color=_DEV_COLOUR)
    twin.tick_params(axis="y", labelcolor=_DEV_COLOUR)
    style: dict[str, Any] = {"color": _DEV_COLOUR, "label": "dev score", "gid": gid}
    return twin.plot(steps, values, "s--", markersize=4, linewidth=1.3, **style)[0]


def _scale(axes: Axes, values: np.ndarray) -> None:
    """Make the axis logarithmic where all values allow it, with numbers rather than powers of ten."""
    if values.min() <= 0:
        return
    from matplotlib.ticker import LogLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    if values.max() < 100 * values.min():
        axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.grid(which="minor", axis="y", color="0.95")
    else:
        axes.yaxis.set_minor_formatter("")


def _import_matplotlib() -> tuple[Any, Any]:
    try:
        import matplotlib
        from matplotlib.figure import Figure  # draws without a window, and knows nothing of pyplot
    except ImportError as error:
        raise InputError("pictures need matplotlib: pip install 'rankencoder[train]'") from error
    return matplotlib, Figure
