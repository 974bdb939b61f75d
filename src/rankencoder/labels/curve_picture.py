"""Draw precision, recall and P(same) over the similarity."""

from __future__ import annotations

from pathlib import Path

from rankencoder.errors import MissingExtraError
from rankencoder.io.storage import new_file
from rankencoder.labels.threshold_curve import ThresholdCurve

# colors of Okabe and Ito, which color-blind people can tell apart
_BANDS = {"precision": "#0072B2", "recall": "#D55E00", "probability": "#007A5A"}
_LABELS = {"precision": "precision", "recall": "recall", "probability": "P(same)"}


def draw_curve(curve: ThresholdCurve, at: int | None, path: Path) -> None:
    """Write an SVG file: each figure with its 95% interval, and the chosen threshold."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure  # draws without a window, and knows nothing of pyplot
    except ImportError as error:
        raise MissingExtraError("a curve needs matplotlib", "report") from error
    with rc_context({"svg.hashsalt": "rankencoder"}), new_file(path) as temporary:
        figure = Figure(figsize=(6.5, 4), dpi=100, layout="constrained")
        axes = figure.add_subplot()
        for name, color in _BANDS.items():
            band = getattr(curve, name)
            axes.plot(curve.thresholds, band.value, color=color, label=_LABELS[name], gid=name)
            axes.fill_between(curve.thresholds, band.low, band.high, color=color, alpha=0.15, linewidth=0)
        if at is not None:
            axes.axvline(curve.thresholds[at], color="0.3", linestyle="--", linewidth=1, gid="threshold")
        axes.set(xlabel="threshold (similarity)", ylabel="share", ylim=(0, 1.02))
        axes.set_title(f"{curve.answers} answers, 95% intervals", fontsize=11)
        axes.grid(color="0.9")
        axes.legend(frameon=False)
        figure.savefig(temporary, format="svg", metadata={"Date": None})
