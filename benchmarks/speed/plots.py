"""How time and memory grow with a corpus, on log axes."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any

from result_plots import COLOURS, written

from speed.tables import NAMES


def draw_growth(results: list[dict[str, Any]], folder: Path) -> None:
    """Draw each device's curves over sentences: seconds, and peak memory where it was measured."""
    for device, name in NAMES.items():
        found = [c for result in results for c in result["sections"].get("growth", {}).get(device) or []]
        whole = [curve for curve in found if "peak_bytes" in curve]
        curves = whole or [curve for curve in found if curve["x"] == "sentences"]
        with written(folder / f"growth-{device}.svg", (9, 3.8)) as figure:
            panels = [("seconds", "ms", 1e3), *([("GB, peak memory", "peak_bytes", 1e9)] if whole else [])]
            for panel, (title, key, unit) in zip(
                figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
            ):
                for curve, colour in zip(curves, cycle(COLOURS), strict=False):
                    values = [value / unit for value in curve[key]]
                    label = f"{curve['what']} ∝ n^{curve['last_exponent']:.2f}"
                    panel.plot(curve["sizes"], values, "o-", color=colour, ms=4, lw=1.2, label=label)
                panel.set(xscale="log", yscale="log", xlabel="n, sentences", title=title)
                panel.grid(alpha=0.3)
            about = f"{name}: time ∝ n^exponent of the last two sizes"
            figure.legend(
                *panel.get_legend_handles_labels(),
                fontsize=8,
                loc="outside lower center",
                ncols=3,
                title=about,
                title_fontsize=8,
            )
