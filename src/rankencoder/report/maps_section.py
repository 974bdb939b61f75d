"""The maps: the same sentences by their vectors and by their rank vectors, with links of positive pairs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from html import escape
from typing import Any

import numpy as np

from rankencoder.evaluation.space_figures import turned
from rankencoder.report.document import Block, Figure, Key, Panel, Section, Value
from rankencoder.report.formatting import clean, number, plural
from rankencoder.report.tables_section import missing
from rankencoder.report.views import View

_SIZE = 440
_MARGIN = 12


def maps_section(views: Sequence[View]) -> Section:
    """Draw base and rank space side by side."""
    heading = "Maps of the two spaces"
    found = [(view, parts[0]) for view in views if (parts := view.parts("map"))]
    if not found:
        return missing("maps", heading, "`rankencoder evaluate MODEL --task map`")
    blocks: list[Block] = [_figure(view, part, i) for i, (view, part) in enumerate(found)]
    lead = (
        "The same sentences in both maps; a line links two of (nearly) the same meaning, so short lines are "
        "good. Point at a dot to read its sentence. Two dimensions show only a part of the space: the table "
        "of its shape is measured in all of them."
    )
    return Section("maps", heading, lead, blocks)


def _figure(view: View, part: dict[str, Any], i: int) -> Figure:
    links = np.array(part["links"], dtype=int).reshape(-1, 2)
    places = {name: np.array(part["points"][name]) for name in ("base", "ranks")}
    places["ranks"] = turned(places["ranks"], places["base"])
    titles = {"base": "by the encoder’s vectors", "ranks": f"by {view.vectors}"}
    sentences = [clean(text) for text in part["sentences"]]
    panels, lengths = [], []
    for name, points in places.items():
        length = _relative_length(points, links)
        lengths.append(length)
        label = f"{view.name}{view.run}: {plural(len(points), 'sentence')} {titles[name]}; linked pairs are "
        label += f"{number(length)} of the mean distance apart."
        draw = partial(_svg, points, links, sentences, label, name)
        panels.append(Panel(_capital(titles[name]), draw, _SIZE))
    finding = view.tell(
        f"{plural(len(sentences), 'sentence')} of {clean(part['set'])}{view.run} by "
        f"{_PROJECTIONS.get(part['projection'], clean(part['projection']))}, with "
        f"{plural(len(links), 'positive pair')}. Linked sentences are "
        f"{number(lengths[0])} of the mean distance apart in the first map and "
        f"{number(lengths[1])} in the second."
    )
    linked = {int(end) for link in links for end in link}
    data: list[list[Value]] = [
        [text, *map(float, a), *map(float, b), "yes" if j in linked else "no"]
        for j, (text, a, b) in enumerate(zip(sentences, places["base"], places["ranks"], strict=True))
    ]
    head = ["sentence", "base x", "base y", "ranks x", "ranks y", "linked"]
    keys = [Key("sentence of a positive pair", "ranks", "dot"), Key("other sentence", "base", "dot")]
    title = view.title or f"Sentences of {clean(part['set'])}"
    return Figure(f"map-{i}", title, finding, keys, panels, head, data)


_PROJECTIONS = {"pca": "principal components", "tsne": "t-SNE", "umap": "UMAP"}


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _relative_length(points: np.ndarray, links: np.ndarray) -> float | None:
    """Return the mean length of the links as a part of the mean distance of all points."""
    if not len(links):
        return None
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    everywhere = apart.sum() / max(1, len(points) * (len(points) - 1))
    lengths = np.linalg.norm(points[links[:, 0]] - points[links[:, 1]], axis=1)
    return float(lengths.mean() / max(everywhere, 1e-12))


def _svg(points: np.ndarray, links: np.ndarray, sentences: list[str], label: str, name: str) -> str:
    low, high = points.min(axis=0), points.max(axis=0)
    scale = (_SIZE - 2 * _MARGIN) / max(float((high - low).max()), 1e-12)
    placed = (points - (low + high) / 2) * scale + _SIZE / 2
    linked = {int(end) for link in links for end in link}
    lines = "".join(
        f"M{placed[a][0]:.1f} {placed[a][1]:.1f}L{placed[b][0]:.1f} {placed[b][1]:.1f}" for a, b in links
    )
    dots = []
    for j in sorted(range(len(placed)), key=lambda j: j in linked):
        x, y = placed[j]
        kind = ' class="linked"' if j in linked else ""
        title = escape(sentences[j])
        dots.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" data-i="{j}"{kind}><title>{title}</title></circle>'
        )
    shown = f'class="plot map" data-space="{name}" role="img" aria-label="{escape(label)}"'
    box = f'viewBox="0 0 {_SIZE} {_SIZE}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {shown} {box}><path class="links" d="{lines}"/>'
        f"{''.join(dots)}</svg>"
    )
