"""The Compare tab."""

from __future__ import annotations

from typing import Any

import gradio as gr

from rankencoder.explorer.comparison import compare
from rankencoder.explorer.explorer_state import Example, ExplorerState
from rankencoder.explorer.layout import EVENT, render
from rankencoder.formatting import plural

NEIGHBORS = (10, 20, 50, 100)


def build(state: ExplorerState) -> None:
    """Lay out the tab with a first example."""
    examples = state.pairs.examples
    weight, k = round(state.model.rank_weight, 2), NEIGHBORS[1]
    with gr.Row(elem_classes="re-sentences"):
        boxes = [
            gr.Textbox(
                text,
                label=f"Sentence {letter}{' (optional)' if letter == 'C' else ''}",
                lines=2,
                max_lines=6,
                min_width=240,
                elem_id=f"sentence-{letter.lower()}",
                placeholder="Type a sentence",
            )
            for letter, text in zip("ABC", examples[0], strict=True)
        ]
    with gr.Row(elem_classes="re-controls"):
        slider = gr.Slider(
            0,
            1,
            weight,
            step=0.01,
            label="Rank weight λ",
            info=f"0 is cosine alone, 1 is {state.rank_name} alone",
            elem_id="rank-weight",
            scale=3,
            min_width=240,
        )
        neighbors = gr.Radio(
            [(str(number), number) for number in NEIGHBORS],
            value=k,
            label="Neighbors",
            elem_id="neighbors",
            scale=0,
            min_width=320,
        )
        another = gr.Button("Another example", elem_id="another", min_width=170, scale=0, size="md")

    # its number box may be empty or out of range while a user types: `compare` says so
    slider.preprocess = lambda payload: payload  # type: ignore[method-assign]

    def show(a: str, b: str, c: str, rank_weight: float, number: int) -> str:
        return render("compare", seen=compare(state, (a, b, c), rank_weight, number), note=_note(state))

    def next_example(a: str) -> Example:
        present = [number for number, example in enumerate(examples) if example.a == a]
        return examples[(present[0] + 1) % len(examples) if present else 0]

    shown = gr.HTML(show(*examples[0], weight, k), elem_id="comparison", apply_default_css=False)
    given: list[Any] = [*boxes, slider, neighbors]
    # a single event for all inputs: a stale answer can never arrive last
    gr.on([one.change for one in given], show, given, shown, **EVENT)
    another.click(next_example, boxes[0], boxes, **EVENT)


def _note(state: ExplorerState) -> str:
    model, pairs, name = state.model, state.pairs.number, state.rank_name
    exact = model.form.name == "exact"
    fidelity = "" if exact else f" Fidelity of the {model.form.name} form to exact ranks: {model.fidelity}."
    return (
        f"Blend (Eq. 7) = λ · {name} + (1 − λ) · cosine; this model’s λ is {model.rank_weight:g}. Random "
        f"pairs: {plural(pairs, 'pair')} of reference sentences. A neighbor’s rank is its place by cosine; "
        f"{name} compares all {len(model.reference):,} places, not only those listed.{fidelity}"
    )
