"""The server as an ASGI application."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Security
from fastapi.security import HTTPBearer
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from rankencoder._version import __version__
from rankencoder.encoders import Encoder
from rankencoder.explain import Explanation
from rankencoder.io.corpus import LONGEST
from rankencoder.model import RankEncoder
from rankencoder.server import schemas
from rankencoder.server.endpoints import Endpoints
from rankencoder.server.http_errors import STATUSES, add_handlers
from rankencoder.server.landing_page import POLICY, docs_page
from rankencoder.server.metrics import Metrics
from rankencoder.server.request_batching import Batcher
from rankencoder.server.request_guard import RequestGuard
from rankencoder.server.server_settings import ServerSettings

_PATHS = ("/v1/embeddings", "/v1/models", "/similarity", "/explain", "/search", "/metrics")


def create_app(
    model: RankEncoder | Encoder, settings: ServerSettings | None = None, *, index: Any = None
) -> FastAPI:
    """Return a server for a model, to be run by uvicorn or any other ASGI server, in one process.

    :param model: A RankEncoder, or a plain encoder, which explains nothing.
    :param index: A `RankIndex` for ``/search``, made with the same model.
    """
    settings = settings or ServerSettings()
    metrics = Metrics(settings.name)
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
            f"Sentence vectors{' of a RankEncoder' * isinstance(model, RankEncoder)} with "
            f"{endpoints.dimension} dimensions. A request has at most {schemas.MAX_SENTENCES:,} sentences of "
            f"{LONGEST:,} characters, and {settings.max_body_mb:g} MB."
        ),
        version=__version__,
        lifespan=running,
        docs_url=None,  # FastAPI's pages load scripts from other machines
        redoc_url=None,
        redirect_slashes=False,
    )
    app.include_router(_router(endpoints, protected=settings.api_key is not None))
    page = docs_page(app.openapi())
    app.add_api_route(
        "/docs",
        lambda: HTMLResponse(page, headers={"Content-Security-Policy": POLICY}),
        response_class=Response,
        include_in_schema=False,
    )
    add_handlers(app)
    app.add_middleware(
        RequestGuard,
        metrics=metrics,
        paths=[*_PATHS, f"/v1/models/{settings.name}"],
        max_body=int(settings.max_body_mb * 1e6),
        timeout=settings.timeout,
        digest=None if settings.api_key is None else hashlib.sha256(settings.api_key.encode()).digest(),
    )
    return app


def _router(endpoints: Endpoints, *, protected: bool) -> APIRouter:
    refusals: dict[int | str, dict[str, Any]] = {
        status: {"model": schemas.ErrorResponse, "description": text} for status, text in STATUSES.items()
    }
    dependencies = [Security(HTTPBearer(auto_error=False))] if protected else []  # for the description
    closed = APIRouter(dependencies=dependencies, responses=refusals)
    for path, endpoint, answer in (
        ("/v1/embeddings", endpoints.embeddings, schemas.EmbeddingsResponse),
        ("/similarity", endpoints.similarity, schemas.SimilarityResponse),
        ("/explain", endpoints.explain, Explanation),
        ("/search", endpoints.search, schemas.SearchResponse),
    ):
        closed.add_api_route(path, endpoint, methods=["POST"], response_model=answer)
    closed.add_api_route("/v1/models", endpoints.models)
    closed.add_api_route("/v1/models/{name:path}", endpoints.model)
    closed.add_api_route("/metrics", endpoints.figures, response_class=PlainTextResponse)
    router = APIRouter()
    router.include_router(closed)
    router.add_api_route("/health", endpoints.health, responses=refusals)
    router.add_api_route("/health", endpoints.health, methods=["HEAD"], include_in_schema=False)
    return router
