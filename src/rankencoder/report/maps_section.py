"""The maps: the same sentences by their vectors and by their rank vectors, with links of positive pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rankencoder.evaluation.space_figures import turned
from rankencoder.report.document import Figure, MapPanel, Section, Value
from rankencoder.report.encoder_views import View
from rankencoder.report.formatting import clean, number, plural

_SIZE = 440
_MARGIN = 12
_PROJECTIONS = {"pca": "principal components", "tsne": "t-SNE", "umap": "UMAP"}


def maps_section(views: Sequence[View]) -> Section:
    """Draw base and rank space side by side."""
    found = [(view, parts[0]) for view in views if (parts := view.parts("map"))]
    return Section("maps", [_figure(view, part, f"map-{i}") for i, (view, part) in enumerate(found)])


def _figure(view: View, part: dict[str, Any], ident: str) -> Figure:
    links = np.array(part["links"], dtype=int).reshape(-1, 2)
    linked = set(links.ravel().tolist())
    base, ranks = (np.array(part["points"][name]) for name in ("base", "ranks"))
    ranks = turned(ranks, base)
    sentences = [clean(text) for text in part["sentences"]]
    panels, lengths = [], []
    for space, points, title in (
        ("base", base, "By the encoder’s vectors"),
        ("ranks", ranks, f"By {view.vectors}"),
    ):
        lengths.append(number(_relative_length(points, links)))
        label = f"{view.name}{view.run}: {plural(len(points), 'sentence')} {title[0].lower()}{title[1:]}; "
        label += f"linked pairs are {lengths[-1]} of the mean distance apart."
        placed = _place(points)
        dots = [(j, x, y, j in linked, sentences[j]) for j, (x, y) in enumerate(placed)]
        ends = [(*placed[a], *placed[b]) for a, b in links]
        panels.append(MapPanel(title, label, space, ends, sorted(dots, key=lambda dot: dot[3])))
    data: list[list[Value]] = [
        [text, *map(float, a), *map(float, b), "yes" if j in linked else "no"]
        for j, (text, a, b) in enumerate(zip(sentences, base, ranks, strict=True))
    ]
    return Figure(
        ident=ident,
        title=view.title or f"Sentences of {clean(part['set'])}",
        keys=[("sentence of a positive pair", "ranks", "dot"), ("other sentence", "base", "dot")],
        panels=panels,
        head=["sentence", "base x", "base y", "ranks x", "ranks y", "linked"],
        data=data,
        finding=view.tell(
            f"{plural(len(sentences), 'sentence')} of {clean(part['set'])}{view.run} by "
            f"{_PROJECTIONS.get(part['projection'], clean(part['projection']))}, with "
            f"{plural(len(links), 'positive pair')}. Linked sentences are {lengths[0]} of the mean distance "
            f"apart in the first map and {lengths[1]} in the second."
        ),
    )


def _relative_length(points: np.ndarray, links: np.ndarray) -> float | None:
    """Return the mean length of the links as a part of the mean distance of all points."""
    if not len(links):
        return None
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    everywhere = apart.sum() / max(1, len(points) * (len(points) - 1))
    lengths = np.linalg.norm(points[links[:, 0]] - points[links[:, 1]], axis=1)
    return float(lengths.mean() / max(everywhere, 1e-12))


def _place(points: np.ndarray) -> list[list[float]]:
    """Move and scale points into the panel."""
    low, high = points.min(axis=0), points.max(axis=0)
    scale = (_SIZE - 2 * _MARGIN) / max(float((high - low).max()), 1e-12)
    placed: list[list[float]] = ((points - (low + high) / 2) * scale + _SIZE / 2).round(1).tolist()
    return placed
