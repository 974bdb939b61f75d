"""The third tab: search and near-duplicates."""

from __future__ import annotations

import gradio as gr

from rankencoder.errors import InputError
from rankencoder.explorer.explorer_state import ExplorerState
from rankencoder.explorer.layout import EVENT, render
from rankencoder.report.formatting import number, plural
from rankencoder.search.near_duplicates import Duplicates

_SHOWN = 50
_FOUND = (5, 10, 20, 50)


def build(state: ExplorerState, tab: gr.Tab) -> None:
    """Lay out the tab; the first search is made when it is first looked at."""
    is_index = state.index is not None
    lead = (
        f"Searches {state.search.what} by meaning, with the model’s rank weight {state.model.rank_weight:g}."
    )
    more = (
        f"Columns: {', '.join(['id', 'text', *state.search.columns])}."
        if is_index
        else "Open the explorer with an index to search sentences of your own."
    )
    gr.HTML(render("lead", text=f"{lead} {more}"), apply_default_css=False)
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
        label="Only where (optional)",
        placeholder='lang=en, or {"year": {"gte": 1990}, "lang": ["en", "de"]}',
        elem_id="where",
        visible=is_index,
    )
    found = gr.HTML(render("lead", text="One moment …"), elem_id="hits", apply_default_css=False)
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
            label="At least as similar as",
            info="A similarity (0.9), or a share of random pairs (99.99%) to be higher than.",
            placeholder=state.search.usual,
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
        lambda: render("lead", text="Comparing all sentences …"),
        None,
        twins,
        **EVENT,
    ).then(lambda text: show_duplicates(state, text), threshold, twins, **EVENT)


def show_hits(state: ExplorerState, query: str, k: int, where: str) -> str:
    """Return what was found, or a sentence that says what is wrong."""
    if not (query or "").strip():
        return render("hits", hits=[], message="Type what to search for.")
    try:
        hits = state.search.search(query, k, where or "")
    except InputError as error:
        return render("hits", hits=[], message=_sentence(error))
    message = "" if hits else "No sentence passes the filter."
    return render("hits", hits=hits, calibration=state.search.calibration, message=message)


def show_duplicates(state: ExplorerState, threshold: str) -> str:
    """Return the most similar pairs, or a sentence that says what is wrong."""
    try:
        found = state.search.near_duplicates(threshold or "")
    except InputError as error:
        return render("hits", hits=[], message=_sentence(error))
    return render("duplicates", found=found, pairs=found.pairs[:_SHOWN], summary=_summary(found))


def _summary(found: Duplicates) -> str:
    level = found.calibration.describe(found.threshold)
    shown = f", the {_SHOWN} most similar below" if len(found.pairs) > _SHOWN else ""
    how = "" if found.exact else " Each sentence was compared with its 32 nearest."
    return (
        f"{plural(len(found.pairs), 'pair')} of {plural(len(found.sentences), 'sentence')} with a similarity "
        f"of at least {number(found.threshold, 3)} ({level}){shown}.{how}"
    )


def _sentence(error: InputError) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."
