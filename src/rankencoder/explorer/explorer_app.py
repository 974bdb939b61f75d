"""The page: three tabs in one Gradio app, which loads nothing from elsewhere and reports to nobody."""

from __future__ import annotations

import os
from typing import Any

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # before gradio is imported
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import gradio as gr
from fastapi import FastAPI
from starlette.responses import PlainTextResponse

from rankencoder.explorer import compare_page, maps_page, search_page
from rankencoder.explorer.explorer_state import Explored
from rankencoder.explorer.layout import read, render
from rankencoder.explorer.theme import theme

_CLOSED = ("/gradio_api/upload", "/gradio_api/openapi.json", "/openapi.json")


class _Closed:
    """Answers 404 where Gradio would take files or describe itself, and knows no switch for it."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        closed = scope["type"] == "http" and scope["path"].startswith(_CLOSED)
        await (PlainTextResponse("not here", 404) if closed else self.app)(scope, receive, send)


def create_app(explored: Explored) -> FastAPI:
    """Return the page as an ASGI application, to be run in one process."""
    blocks = build(explored)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    options: dict[str, Any] = {
        "footer_links": [],
        "run_history": False,
        "ssr_mode": False,
        "mcp_server": False,
        "enable_monitoring": False,
        "pwa": False,
        "theme": theme(),
        "css": read("style.css"),
    }
    mounted: FastAPI = gr.mount_gradio_app(app, blocks, path="/", **options)
    mounted.add_middleware(_Closed)
    return mounted


def build(explored: Explored) -> gr.Blocks:
    """Lay out the page."""
    model = explored.model
    facts = {
        "name": explored.name,
        "size": f"{len(model.reference):,}",
        "encoder": "/".join(str(model.encoder.name).rstrip("/").split("/")[-2:]),
        "form": f"{model.form.name} form, {model.dimension:,} numbers a sentence",
        "weight": f"{model.rank_weight:g}",
        "index": None if explored.index is None else explored.index.folder.path.resolve().name,
    }
    blocks: gr.Blocks = gr.Blocks(title=f"{explored.name}: rankencoder explorer", analytics_enabled=False)
    with blocks:
        gr.HTML(render("head", **facts), apply_default_css=False)
        with gr.Tabs():
            for name, page in (("Compare", compare_page), ("Maps", maps_page), ("Search", search_page)):
                with gr.Tab(name) as tab:
                    page.build(explored, tab)
    return blocks
