"""The Label tab: label pairs as same or different."""

from __future__ import annotations

import shlex
import threading
from pathlib import Path
from typing import Any

import gradio as gr

from rankencoder.errors import InputError
from rankencoder.explorer.layout import read, sentence
from rankencoder.formatting import clean
from rankencoder.labels.sitting import EVERY, Sitting
from rankencoder.search.rank_index import RankIndex
from rankencoder.search.records import draw_pool


class LabelDesk:
    """One labeling session for all open pages. Locks its file only per answer, so that others can take turns.

    :param name: The model, as the user named it.
    """

    def __init__(self, path: Path, name: str, index: RankIndex) -> None:
        self.path, self.name, self.index = path, name, index
        self._sitting = Sitting.find(path, index.model.identity)
        self._turn = threading.Lock()

    @property
    def sitting(self) -> Sitting:
        """The session, started on first use."""
        if self._sitting is None:
            self._sitting = Sitting(self.path, draw_pool(self.index.model, self.index, name=self.name))
        return self._sitting

    def label(self, key: str, seen: list[str] | None, goal: int) -> dict[str, Any]:
        """Process a key, and return the next question.

        :param key: One of y, n, s and u; empty for the question alone.
        :param seen: The pair on the page; an answer to another pair is not counted.
        :param goal: The number of answers to ask for.
        """
        message = ""
        with self._turn:
            try:
                with self.sitting as sitting:
                    if key and seen != _pair(sitting, goal):
                        message = "Not counted: this pair was already answered elsewhere." if seen else ""
                    elif key and (seen or key == "u") and not sitting.press(key):
                        message = "Nothing to undo."
                    number = len(sitting.given)
                    return {
                        "pair": _pair(sitting, goal),
                        "number": number,
                        "is_summed_up": number > 0 and number % EVERY == 0,
                        "message": message,
                        "doubts": [sentence(doubt) for doubt in sitting.doubts()],
                        "next": shlex.join(
                            ["rankencoder", "threshold", str(self.index.folder.path), str(self.path)]
                        ),
                    }
            except InputError as error:
                return {"message": sentence(error)}


def build(desk: LabelDesk) -> None:
    """Lay out the tab; its script requests the first pair when it is first opened."""

    def take(given: list[Any]) -> dict[str, Any]:
        return desk.label(*given)

    def summarize(_: Any = None) -> str:
        return sentence(desk.sitting.summary())

    gr.HTML(
        html_template=read("label.html"),
        js_on_load=read("label.js"),
        server_functions=[take, summarize],
        elem_id="label",
        apply_default_css=False,
    )


def _pair(sitting: Sitting, goal: int) -> list[str] | None:
    asked = sitting.question() if len(sitting.given) < goal else None
    return None if asked is None else [clean(asked.a), clean(asked.b)]
