"""The figure of similarities: how those of each set are distributed, cosine next to ranks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from rankencoder.report.document import Block, Figure, Key, Panel, Section, Value
from rankencoder.report.drawing import COLOURS, axes_of, to_svg
from rankencoder.report.formatting import clean, listed, number
from rankencoder.report.tables_section import missing
from rankencoder.report.views import View, set_order

_BINS = 40
_WIDTH = 320


def similarities_section(views: Sequence[View]) -> Section:
    """Draw how the similarities of each set are distributed, cosine next to ranks."""
    heading = "How similarities are spread"
    scored = [view for view in views if view.rows]
    if not scored:
        return missing("similarities", heading, "`rankencoder evaluate MODEL --task sts`")
    blocks: list[Block] = [_figure(view, i) for i, view in enumerate(scored)]
    lead = (
        "Each small picture is one data set: how many pairs get which similarity. A correlation sees only "
        "the order, so a shift by itself changes nothing, but thresholds chosen for cosine do not carry over "
        "to ranks."
    )
    return Section("similarities", heading, lead, blocks, findings=[_told(view) for view in scored])


def _told(view: View) -> str:
    kinds = [kind for kind in ("cosine", "ranks") if kind in view.rows]
    medians = {k: [float(np.median(v[0])) for v in view.rows[k].similarities.values()] for k in kinds}
    told = [f"{number(float(np.mean(medians[kind])))} by {view.similarity(kind)}" for kind in kinds]
    return view.tell(f"a set’s median similarity is {listed(told)}, on average over sets{view.run}.")


def _figure(view: View, i: int) -> Figure:
    kinds = [kind for kind in ("cosine", "ranks") if kind in view.rows]
    names = set_order(list(view.rows["cosine"].golds))
    values = {(name, kind): view.rows[kind].similarities[name][0] for name in names for kind in kinds}
    low, high = min(v.min() for v in values.values()), max(v.max() for v in values.values())
    edges = np.linspace(low, max(high, low + 1e-6), _BINS + 1)
    panels: list[Panel] = []
    data: list[list[Value]] = []
    medians = {key: float(np.median(found)) for key, found in values.items()}
    for j, name in enumerate(names):
        counts: dict[str, np.ndarray] = {kind: np.histogram(values[name, kind], edges)[0] for kind in kinds}
        told = [f"{view.similarity(kind)} has the median {number(medians[name, kind])}" for kind in kinds]
        label = f"{clean(name)}: {listed(told)}"
        panels.append(Panel(clean(name), partial(_draw, edges, counts, f"similar{i}x{j}", label), _WIDTH))
        columns = zip(edges[:-1], edges[1:], *counts.values(), strict=True)
        data += [[name, float(a), float(b), *map(int, numbers)] for a, b, *numbers in columns]
    told = [f"{clean(name)} {' and '.join(number(medians[name, kind]) for kind in kinds)}" for name in names]
    what = listed(view.similarity(kind) for kind in kinds)
    finding = view.tell(f"medians by {what}{view.run}: {', '.join(told)}.")
    marks = {"cosine": Key("cosine", "base", "area"), "ranks": Key(view.similarity("ranks"), "ranks", "line")}
    head = ["set", "from", "to", *(view.similarity(kind) for kind in kinds)]
    title = view.title or "Pairs by their similarity"
    return Figure(f"similarities-{i}", title, finding, [marks[k] for k in kinds], panels, head, data)


def _draw(edges: np.ndarray, counts: dict[str, np.ndarray], ident: str, label: str) -> str:
    with axes_of(165, width=_WIDTH) as axes:
        axes.stairs(counts["cosine"], edges, fill=True, color=COLOURS["base"], alpha=0.45)
        if "ranks" in counts:
            axes.stairs(counts["ranks"], edges, color=COLOURS["ranks"], linewidth=2)
        axes.set_ylim(bottom=0)
        axes.grid(axis="x", visible=False)
        axes.locator_params(axis="y", nbins=3)
        axes.locator_params(axis="x", nbins=5)
        return to_svg(axes, ident, label)
