"""The third tab."""

from __future__ import annotations

from typing import Any

import gradio as gr

from rankencoder.errors import InputError
from rankencoder.explorer.explorer_state import Explored
from rankencoder.explorer.layout import render
from rankencoder.report.formatting import number, plural
from rankencoder.search.hits import Hit
from rankencoder.search.near_duplicates import Duplicates

_SHOWN = 50
_FOUND = (5, 10, 20, 50)


def build(explored: Explored, tab: gr.Tab) -> None:
    """Lay out the tab; the first search is made when it is first looked at."""
    searched = explored.searched()
    is_index = explored.index is not None
    first = explored.background().examples[0].a
    only = "" if is_index else " Start with --index INDEX to search sentences of your own."
    lead = (
        f"Searches {searched.what} by meaning, with the model’s rank weight {explored.model.rank_weight:g}."
    )
    columns = f" Columns: {', '.join(['id', 'text', *searched.columns])}." if is_index else ""
    gr.HTML(render("lead", text=f"{lead}{only}{columns}"), apply_default_css=False)
    with gr.Row(elem_classes="re-controls"):
        query = gr.Textbox(first, label="Search for", elem_id="query", lines=1, scale=3, min_width=240)
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
        placeholder="text LIKE '%file%'",
        elem_id="where",
        visible=is_index,
    )
    found = gr.HTML(render("lead", text="One moment …"), elem_id="hits", apply_default_css=False)
    gr.on(
        [tab.select, query.change, results.change, where.change],
        lambda *given: search(explored, *given),
        [query, results, where],
        found,
        queue=False,
        show_progress="hidden",
        trigger_mode="always_last",
        api_visibility="private",
    )
    gr.HTML('<h2 class="re-heading">Near-duplicates</h2>', apply_default_css=False)
    with gr.Row(elem_classes="re-controls"):
        threshold = gr.Textbox(
            label="At least as similar as",
            info="A similarity (0.9), or a share of random pairs (99.99%) to be higher than.",
            placeholder=searched.usual,
            elem_id="threshold",
            scale=3,
            min_width=240,
        )
        start = gr.Button(
            "Find near-duplicates", elem_id="find-duplicates", scale=0, min_width=200, size="md"
        )
    twins = gr.HTML("", elem_id="duplicates", apply_default_css=False)
    alike: dict[str, Any] = {
        "queue": False,
        "show_progress": "hidden",
        "trigger_mode": "always_last",  # what was asked for last is answered last
        "api_visibility": "private",
    }
    gr.on(
        [start.click, threshold.submit],
        lambda: render("lead", text="Comparing all sentences …"),
        None,
        twins,
        **alike,
    ).then(lambda text: duplicates(explored, text), threshold, twins, **alike)


def search(explored: Explored, query: str, k: int, where: str) -> str:
    """Return what was found, or a sentence that says what is wrong."""
    hits: list[Hit] = []
    message = ""
    if not (query or "").strip():
        return render("hits", hits=hits, meanings=[], message="Type what to search for.")
    try:
        hits = explored.searched().search(query, k, where or "")
        nothing = "Nothing was found that the filter lets through." if where else "There is nothing to find."
        message = "" if hits else nothing
    except InputError as error:
        message = _sentence(error)
    meanings = ["" if hit.percentile is None else explored.searched().meaning(hit.score) for hit in hits]
    return render("hits", hits=hits, meanings=meanings, message=message)


def duplicates(explored: Explored, threshold: str) -> str:
    """Return the most similar pairs, or a sentence that says what is wrong."""
    try:
        found = explored.searched().near_duplicates(threshold or "")
    except InputError as error:
        return render("duplicates", found=None, pairs=[], told="", message=_sentence(error))
    return render("duplicates", found=found, pairs=found.pairs[:_SHOWN], told=_told(found), message="")


def _told(found: Duplicates) -> str:
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
