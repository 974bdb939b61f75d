"""The second tab."""

from __future__ import annotations

from typing import Any

import gradio as gr

from rankencoder.explorer.explorer_state import Explored
from rankencoder.explorer.layout import read


def build(explored: Explored, _: gr.Tab) -> None:
    """Lay out the tab; its script asks for the maps when it is first looked at."""

    def map_data(_: Any = None) -> dict[str, Any]:
        return explored.maps().to_dict()

    gr.HTML(
        html_template=read("maps.html"),
        js_on_load=read("maps.js"),
        server_functions=[map_data],
        elem_id="maps",
        apply_default_css=False,
    )
