"""The maps: the same sentences by their vectors and by their rank vectors, with links of positive pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rankencoder.evaluation.space_figures import turned
from rankencoder.report.document import Figure, MapPanel, Section
from rankencoder.report.encoder_views import View
from rankencoder.report.formatting import clean, plural

_SIZE = 440
_MARGIN = 12
_PROJECTIONS = {"pca": "principal components", "tsne": "t-SNE"}


def maps_section(views: Sequence[View]) -> Section:
    """Draw base and rank space side by side."""
    return Section("maps", [_figure(view, part) for view in views for part in view.parts("map")[:1]])


def _figure(view: View, part: dict[str, Any]) -> Figure:
    links = np.array(part["links"], dtype=int).reshape(-1, 2)
    linked = set(links.ravel().tolist())
    base = np.array(part["points"]["base"])
    ranks = turned(np.array(part["points"]["ranks"]), base)
    sentences = [clean(text) for text in part["sentences"]]
    projection = _PROJECTIONS.get(part["projection"], clean(part["projection"]))
    about = f"{plural(len(sentences), 'sentence')} of {clean(part['set'])}{view.run} by {projection}, with "
    about += f"{plural(len(links), 'positive pair')}."
    panels = []
    for points, title in ((base, "By the encoder’s vectors"), (ranks, f"By {view.vectors}")):
        placed = _place(points)
        dots = [(j, x, y, j in linked, sentences[j]) for j, (x, y) in enumerate(placed)]
        ends = [(*placed[a], *placed[b]) for a, b in links]
        label = f"{view.name}. {title}: {about}"
        panels.append(MapPanel(title, label, ends, sorted(dots, key=lambda dot: dot[3])))
    rows = zip(sentences, base.tolist(), ranks.tolist(), strict=True)
    data = [[text, *a, *b, "yes" if j in linked else "no"] for j, (text, a, b) in enumerate(rows)]
    return Figure("map", panels, data, findings=[view.tell(about)], of=view.title)


def _place(points: np.ndarray) -> list[list[float]]:
    """Move and scale points into the panel."""
    low, high = points.min(axis=0), points.max(axis=0)
    scale = (_SIZE - 2 * _MARGIN) / max(float((high - low).max()), 1e-12)
    placed: list[list[float]] = ((points - (low + high) / 2) * scale + _SIZE / 2).round(1).tolist()
    return placed
