"""The Search tab: search an index and find its near-duplicates."""

from __future__ import annotations

import gradio as gr

from rankencoder.errors import InputError
from rankencoder.explorer.explorer_state import ExplorerState
from rankencoder.explorer.layout import EVENT, render, sentence
from rankencoder.formatting import number, plural
from rankencoder.search.filters import parse_filter
from rankencoder.search.near_duplicates import find_duplicates

MAX_COMPARED = 50_000
MAX_PAIRS = 20_000
_SHOWN = 50
_FOUND = (5, 10, 20, 50)


def build(state: ExplorerState, tab: gr.Tab) -> None:
    """Lay out the tab; the first search runs when it is first opened."""
    index = state.index
    lead = (
        f"Searches {plural(len(index), 'sentence')} by meaning. "
        f"Columns: {', '.join(['id', 'text', *index.columns])}."
    )
    gr.HTML(render("lead", text=lead), apply_default_css=False)
    with gr.Row(elem_classes="re-controls"):
        query = gr.Textbox(
            state.pairs.examples[0].a, label="Search for", elem_id="query", lines=1, scale=3, min_width=240
        )
        results = gr.Radio(
            [(str(k), k) for k in _FOUND],
            value=_FOUND[1],
            label="Results",
            elem_id="results",
            scale=0,
            min_width=290,
        )
    where = gr.Textbox(
        label="Filter (optional)",
        placeholder='lang=en, or {"year": {"gte": 1990}, "lang": ["en", "de"]}',
        elem_id="where",
        visible=bool(index.columns),
    )
    found = gr.HTML(render("lead", text="Searching…"), elem_id="hits", apply_default_css=False)
    gr.on(
        [tab.select, query.change, results.change, where.change],
        lambda *given: show_hits(state, *given),
        [query, results, where],
        found,
        **EVENT,
    )
    gr.HTML('<h2 class="re-heading">Near-duplicates</h2>', apply_default_css=False)
    with gr.Row(elem_classes="re-controls"):
        threshold = gr.Textbox(
            label="Threshold (optional)",
            info="A similarity (0.9) or a percentile of random pairs (99.99%).",
            elem_id="threshold",
            scale=3,
            min_width=240,
        )
        start = gr.Button(
            "Find near-duplicates", elem_id="find-duplicates", scale=0, min_width=200, size="md"
        )
    twins = gr.HTML("", elem_id="duplicates", apply_default_css=False)
    gr.on(
        [start.click, threshold.submit],
        lambda: render("lead", text="Comparing all sentences…"),
        None,
        twins,
        **EVENT,
    ).then(lambda text: show_duplicates(state, text), threshold, twins, **EVENT)


def show_hits(state: ExplorerState, query: str, k: int, where: str) -> str:
    """Render the hits, or the error."""
    if not (query or "").strip():
        return render("hits", hits=[], message="Type a query.")
    try:
        condition = parse_filter([where]) if (where or "").strip() else None
        with state.lock:
            hits = state.index.search(query.strip(), k, where=condition)
    except InputError as error:
        return _refusal(error)
    message = "" if hits else "No sentence matches the filter."
    return render("hits", hits=hits, calibration=state.index.calibration, message=message)


def show_duplicates(state: ExplorerState, threshold: str) -> str:
    """Render the most similar pairs, or the error."""
    try:
        if len(state.index) > MAX_COMPARED:
            raise InputError(f"cannot compare {len(state.index):,} sentences here: at most {MAX_COMPARED:,}")
        found = find_duplicates(state.index, threshold=(threshold or "").strip() or None, most=MAX_PAIRS)
    except InputError as error:
        return _refusal(error)
    shown = f", the {_SHOWN} most similar below" if len(found.pairs) > _SHOWN else ""
    summary = (
        f"{plural(len(found.pairs), 'pair')} of {plural(len(found.sentences), 'sentence')} with a similarity "
        f"of at least {number(found.threshold, 3)} ({found.calibration.describe(found.threshold)}){shown}."
    )
    return render("duplicates", found=found, pairs=found.pairs[:_SHOWN], summary=summary)


def _refusal(error: InputError) -> str:
    return render("hits", hits=[], message=sentence(error))
