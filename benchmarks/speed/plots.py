"""How cost grows, on log axes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from result_plots import COLOURS, axes


def draw_growth(results: list[dict[str, Any]], folder: Path) -> None:
    """Draw each device's curves into one picture, with their exponents."""
    for device in ("cpu", "cuda"):
        curves = [
            curve for result in results for curve in result["sections"].get("growth", {}).get(device) or []
        ]
        names = {"cpu": "CPU", "cuda": "GPU"}
        with axes(folder / f"growth-{device}.svg", "size", "ms", f"How cost grows, {names[device]}") as drawn:
            for curve, colour in zip(curves, COLOURS, strict=False):
                label = f"{curve['what']}, by {curve['x']}: ∝ size^{curve['exponent']:.2f}"
                drawn.plot(curve["sizes"], curve["ms"], "o-", color=colour, ms=4, lw=1.2, label=label)
            if curves:
                drawn.set_xscale("log")
                drawn.set_yscale("log")
