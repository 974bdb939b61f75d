"""The server as an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Security
from fastapi.security import HTTPBearer
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from rankencoder._version import __version__
from rankencoder.encoders import Encoder
from rankencoder.explain import Explanation
from rankencoder.io.corpus import LONGEST
from rankencoder.model import RankEncoder
from rankencoder.server import schemas
from rankencoder.server.endpoints import Endpoints
from rankencoder.server.http_errors import HANDLERS
from rankencoder.server.metrics import Metrics
from rankencoder.server.request_batching import Batcher
from rankencoder.server.request_guard import RequestGuard
from rankencoder.server.server_settings import MAX_SENTENCES, ServerSettings


def create_app(
    model: RankEncoder | Encoder, settings: ServerSettings | None = None, *, index: Any = None
) -> FastAPI:
    """Return a server for a model, to be run by uvicorn or any other ASGI server, in one process.

    :param model: A RankEncoder, or a plain encoder, which explains nothing.
    :param index: A `RankIndex` for ``/search``, made with the same model.
    """
    settings = settings or ServerSettings()
    metrics = Metrics()
    if index is not None:
        _ = index.model, index.calibration  # opened now, and not in the first request
    endpoints = Endpoints(model, settings.name, metrics, index)
    size, wait, limit = settings.batch_sentences, settings.batch_wait_ms / 1000, settings.max_waiting

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        batcher = Batcher(endpoints.encode, metrics, size=size, wait=wait, limit=limit)
        endpoints.batcher = batcher  # made anew at each start: its thread ends with the server
        worker = asyncio.create_task(batcher.run())
        yield
        worker.cancel()
        await batcher.close()

    app = FastAPI(
        title=f"rankencoder: {settings.name}",
        description=(
            f"Sentence vectors with {endpoints.dimension} dimensions. A request has at most "
            f"{MAX_SENTENCES:,} sentences of {LONGEST:,} characters, and {settings.max_body_mb:g} MB."
        ),
        version=__version__,
        lifespan=running,
        docs_url=None,  # FastAPI's pages load scripts from other machines
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers=HANDLERS,
        dependencies=[Security(HTTPBearer(auto_error=False))] if settings.api_key else [],  # to describe it
        responses={"default": {"model": schemas.ErrorResponse, "description": "An error."}},
    )
    for path, endpoint, answer in (
        ("/v1/embeddings", endpoints.embeddings, schemas.EmbeddingsResponse),
        ("/similarity", endpoints.similarity, schemas.SimilarityResponse),
        ("/explain", endpoints.explain, Explanation),
        ("/search", endpoints.search, schemas.SearchResponse),
    ):
        app.add_api_route(path, endpoint, methods=["POST"], response_model=answer)
    app.add_api_route("/v1/models", endpoints.models)
    app.add_api_route("/v1/models/{name:path}", endpoints.model)
    app.add_api_route("/metrics", endpoints.figures, response_class=PlainTextResponse)
    app.add_api_route("/health", endpoints.health)
    app.add_api_route("/health", endpoints.health, methods=["HEAD"], include_in_schema=False)
    paths = {route.path for route in app.routes if isinstance(route, Route)}
    app.add_middleware(RequestGuard, settings=settings, metrics=metrics, paths=paths)
    return app
