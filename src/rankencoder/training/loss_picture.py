"""Plot the losses of a training run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure  # needs no display, unlike pyplot

from rankencoder.io.storage import new_file

_CURVES = {"contrastive": "contrastive loss", "weighted_rank": "λ · rank loss", "dev": "dev score"}
_COLORS = {"contrastive": "#0072B2", "weighted_rank": "#D55E00", "dev": "#007A5A"}  # Okabe and Ito


def draw_losses(history: Sequence[Mapping[str, float]], path: Path, *, title: str) -> None:
    """Plot the losses of each stage over the steps, with dev scores if any.

    Each curve is an SVG group with its stage and key as id, such as "stage2-weighted_rank".

    :param history: Log entries with "stage", "step", "contrastive", and some with "weighted_rank" (λ times
        the rank loss) or "dev".
    :param path: The SVG file to write.
    """
    stages = sorted({int(record["stage"]) for record in history if "contrastive" in record})
    # fixed ids and no date, for reproducible files
    with rc_context({"svg.hashsalt": "rankencoder"}), new_file(path) as temporary:
        figure = Figure(figsize=(max(6.5, 5 * len(stages)), 4), layout="constrained")
        figure.suptitle(title, parse_math=False)
        for axes, stage in zip(figure.subplots(1, len(stages), squeeze=False)[0], stages, strict=True):
            _draw_stage(axes, [record for record in history if record["stage"] == stage], stage)
        figure.savefig(temporary, format="svg", metadata={"Date": None})


def _draw_stage(axes: Axes, records: list[Mapping[str, float]], stage: int) -> None:
    axes.set(title=f"Stage {stage}", xlabel="optimizer step", ylabel="loss")
    axes.grid(color="0.9")
    lines: list[Any] = []
    for key, label in _CURVES.items():
        points = [(record["step"], record[key]) for record in records if key in record]
        if points:
            side = axes.twinx() if key == "dev" else axes
            style: dict[str, Any] = {"color": _COLORS[key], "label": label, "gid": f"stage{stage}-{key}"}
            lines += side.plot(*zip(*points, strict=True), ".-", linewidth=1, markersize=3, **style)
            side.set_ylabel(label if key == "dev" else "loss")
    if all(record.get(key, 1) > 0 for record in records for key in ("contrastive", "weighted_rank")):
        axes.set_yscale("log")
    axes.legend(handles=lines, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, frameon=False)
