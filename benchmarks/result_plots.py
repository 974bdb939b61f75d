"""The plots of ``results/README.md``, small SVG files made of the raw results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.colors
import numpy as np
from matplotlib.figure import Figure
from result_runs import NAMES, SEEN, Runs, encoders, gain_of
from sts_curves import POWERS

from rankencoder.training.loss_picture import draw_losses

COLOURS = ("#0072B2", "#D55E00", "#007A5A", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito's


@contextmanager
def written(path: Path, size: tuple[float, float] = (6, 3.8)) -> Iterator[Figure]:
    """Give a figure to draw on, and write it if something is drawn; the same results, the same file."""
    with matplotlib.rc_context({"svg.hashsalt": "rankencoder"}):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        if any(drawn.get_legend_handles_labels()[0] for drawn in figure.axes):  # something was measured
            figure.savefig(path, metadata={"Date": None})


@contextmanager
def axes(path: Path, x: str, y: str, title: str) -> Iterator[Any]:
    """Give axes to draw on, with a legend in the end."""
    with written(path) as figure:
        drawn: Any = figure.add_subplot()
        drawn.set(xlabel=x, ylabel=y, title=title)
        drawn.grid(alpha=0.3)
        yield drawn
        many = len(drawn.get_legend_handles_labels()[0]) > 8
        if drawn.get_legend_handles_labels()[0]:
            drawn.legend(fontsize=8, **({"loc": "center left", "bbox_to_anchor": (1, 0.5)} if many else {}))


def draw_powers(runs: Runs, path: Path) -> None:
    """Draw what each power gains over cosine, for every encoder."""
    with axes(
        path, "power of the covariance (centered)", "gain in AVG over cosine", "Every encoder"
    ) as drawn:
        for family, colour in _colours(runs).items():
            for run, _, found in encoders(runs):
                if run["family"] == family:
                    base = found["scores"]["cosine"]["AVG"]
                    gains = [found["scores"][f"centered {power:+g}"]["AVG"] - base for power in POWERS]
                    drawn.plot(POWERS, gains, color=colour, alpha=0.6, lw=1)
            drawn.plot([], [], color=colour, label=family)
        drawn.axhline(0, color="black", lw=0.8)


def draw_when(runs: Runs, path: Path) -> None:
    """Draw the gains of ranks and of centered power −¼ against what can be seen of an encoder."""
    of = [found for _, _, found in encoders(runs)]
    if not of:
        return
    with written(path, (9, 5.4)) as figure:
        panels = figure.subplots(2, 3, sharey=True).flat
        for drawn, (label, value) in zip(panels, SEEN.items(), strict=True):
            for name, colour in (("ranks", COLOURS[1]), ("centered -0.25", COLOURS[0])):
                gains = [gain_of(found, name) for found in of]
                drawn.scatter([value(found) for found in of], gains, s=8, color=colour, label=name)
            drawn.axhline(0, color="black", lw=0.8)
            drawn.set_xlabel(label)
            drawn.grid(alpha=0.3)
        figure.supylabel("gain in AVG over cosine")
        figure.legend(*drawn.get_legend_handles_labels(), loc="outside upper center", ncols=2)


def draw_weights(runs: Runs, path: Path) -> None:
    """Draw AVG by λ of Eq. 7, means over seeds."""
    with axes(path, "λ of Eq. 7", "AVG − that of λ = 0", "Weight of ranks at inference") as drawn:
        for (name, title), colour in zip(NAMES.items(), COLOURS, strict=False):
            for role, style in (("E1", "-"), ("E2", "--")):
                of = [
                    r["curves"][role]["rank-weight"] for r in runs.get(f"tables/{name}", []) if "curves" in r
                ]
                if of:
                    mean = np.mean([curve["scores"]["AVG"] for curve in of], axis=0)
                    drawn.plot(of[0]["x"], mean - mean[0], style, color=colour, label=f"{title}, {role}")
        drawn.axhline(0, color="black", lw=0.8)


def draw_references(runs: Runs, path: Path) -> None:
    """Draw the score of ranks by the size of the reference corpus."""
    with axes(path, "reference sentences", "Spearman ×100, STS-B dev", "Ranks by reference size") as drawn:
        drawn.set_xscale("log")
        for run in runs.get("tables/simcse-references", []):
            curve = next(iter(run["curves"].values()))["reference-size"]
            drawn.errorbar(curve["x"], curve["mean"], curve["std"], label=f"SimCSE, seed {run['seed']}")


def draw_overlap(runs: Runs, path: Path) -> None:
    """Draw the gain of ranks against shared neighbors, a point a bin of cosine."""
    with axes(path, "shared of 100 nearest", "gain of ranks over cosine", "Shared neighbors") as drawn:
        for (name, title), colour in zip(NAMES.items(), COLOURS, strict=False):
            of = [r["neighbors"]["E1"] for r in runs.get(f"tables/{name}", []) if "neighbors" in r]
            bins = [b for found in of for b in found["bins"] if b["gain"] is not None]
            if bins:
                x, y = [b["overlap"] for b in bins], [b["gain"] for b in bins]
                drawn.scatter(x, y, s=16, color=colour, label=title)
        drawn.axhline(0, color="black", lw=0.8)


def _colours(runs: Runs) -> dict[str, str]:
    families = sorted({run["family"] for run, _, _ in encoders(runs)})
    shades = matplotlib.colormaps["tab20"]
    return {family: matplotlib.colors.to_hex(shades(i % 20)) for i, family in enumerate(families)}


PLOTS = {
    "powers": draw_powers,
    "when": draw_when,
    "rank-weight": draw_weights,
    "reference-size": draw_references,
    "overlap": draw_overlap,
}


def draw_all(runs: Runs, folder: Path) -> None:
    """Draw everything that was measured."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PLOTS.items():
        draw(runs, folder / f"{name}.svg")
    for name, title in NAMES.items():
        for run in runs.get(f"tables/{name}", [])[:1]:
            draw_losses(run["history"], folder / f"losses-{name}.svg", title=f"{title}, E1 and E2")
