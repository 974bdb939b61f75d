"""The explorer's Gradio app, which loads nothing from other hosts and sends no telemetry."""

from __future__ import annotations

from typing import Any

import gradio as gr
from fastapi import FastAPI
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from rankencoder.explorer import compare_tab, label_tab, search_tab
from rankencoder.explorer.explorer_state import ExplorerState
from rankencoder.explorer.layout import read, render
from rankencoder.explorer.space_maps import neighbor_map
from rankencoder.formatting import plural

_FONT = ["system-ui", "Segoe UI", "Roboto", "Helvetica Neue", "Noto Sans", "Liberation Sans", "sans-serif"]
_MONO = ["ui-monospace", "Menlo", "Consolas", "Liberation Mono", "monospace"]
# Gradio's paths for uploads and for its own description, which no option disables
_CLOSED = ("/gradio_api/upload", "/gradio_api/openapi.json", "/openapi.json")


def create_app(state: ExplorerState) -> FastAPI:
    """Create the ASGI application, to be run in a single process."""
    options: dict[str, Any] = {
        "footer_links": [],
        "run_history": False,
        "ssr_mode": False,
        "mcp_server": False,
        "enable_monitoring": False,
        "pwa": False,
        "theme": gr.themes.Base(font=_FONT, font_mono=_MONO, text_size="lg"),  # colors are in style.css
        "css": read("style.css"),
    }
    refusal = PlainTextResponse("not here", 404)
    closed: list[Any] = [Route(f"{path}{{rest:path}}", refusal) for path in _CLOSED]
    app = FastAPI(routes=closed, docs_url=None, redoc_url=None, openapi_url=None)
    mounted: FastAPI = gr.mount_gradio_app(app, _page(state), path="/", **options)
    return mounted


def _page(state: ExplorerState) -> gr.Blocks:
    model = state.model
    names = [encoder.name for encoder in getattr(model.encoder, "members", [model.encoder])]
    facts = {
        "name": state.name,
        "size": f"{len(model.reference):,}",
        "encoder": " + ".join("/".join(name.rstrip("/").split("/")[-2:]) for name in names),
        "form": f"{model.form.name} form, {model.dimension:,} dimensions",
        "weight": f"{model.rank_weight:g}",
        "index": None if state.index is None else plural(len(state.index), "sentence"),
    }
    blocks: gr.Blocks = gr.Blocks(title=f"{state.name}: rankencoder explorer", analytics_enabled=False)
    with blocks:
        gr.HTML(render("head", **facts), apply_default_css=False)
        with gr.Tabs():
            with gr.Tab("Compare"):
                compare_tab.build(state)
            with gr.Tab("Maps"):
                _build_maps(state)
            if state.index is not None:
                with gr.Tab("Search") as tab:
                    search_tab.build(state, tab)
            if state.desk is not None:
                with gr.Tab("Label"):
                    label_tab.build(state.desk)
    return blocks


def _build_maps(state: ExplorerState) -> None:
    """Lay out the tab; its script requests the maps when it is first opened."""

    def map_data(kind: Any = None) -> dict[str, Any]:
        return state.maps("PCA" if kind == "PCA" else neighbor_map())

    gr.HTML(
        html_template=read("maps.html").replace("NEIGHBOR_MAP", neighbor_map()),
        js_on_load=read("maps.js"),
        server_functions=[map_data],
        elem_id="maps",
        apply_default_css=False,
    )
