"""The server as an ASGI application."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from rankencoder._version import __version__
from rankencoder.encoders import Encoder
from rankencoder.model import RankEncoder
from rankencoder.server import schemas
from rankencoder.server.description import add_limits
from rankencoder.server.endpoints import Endpoints, JsonRoute
from rankencoder.server.http_errors import json_response, of_http, of_validation
from rankencoder.server.landing_page import POLICY, docs_page
from rankencoder.server.limits import Gate, KeyGate, Observer
from rankencoder.server.metrics import Metrics
from rankencoder.server.request_batching import Batcher
from rankencoder.server.served_model import Served
from rankencoder.server.server_settings import Settings

OPEN = ("/health", "/docs", "/openapi.json")
"""Paths that need no key: they tell nothing that was not said to all."""

_REFUSALS = {
    400: "The body is not JSON.",
    401: "No API key, or a wrong one.",
    404: "No such model.",
    408: "The body took too long to arrive.",
    409: "This server was not given what it takes.",
    413: "The body is too large.",
    415: "The body is of another type than JSON.",
    422: "A field is missing or wrong; the message says which.",
    429: "Too much waits to be encoded.",
    500: "The server failed.",
    503: "It took too long.",
}


def create_app(
    model: RankEncoder | Encoder | Served, settings: Settings | None = None, *, index: Any = None
) -> FastAPI:
    """Return a server for a model, to be run by uvicorn or any other ASGI server, in one process.

    :param model: A RankEncoder, or a plain encoder, which explains nothing.
    :param settings: Limits, batching, name and key.
    :param index: A `RankIndex` for ``/search``, made with the same model.
    """
    settings = settings or Settings()
    key, settings = settings.api_key, replace(settings, api_key=None)  # only its digest is kept here
    served = model if isinstance(model, Served) else Served(model)
    metrics = Metrics(settings.name)

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        # made anew at each start: its thread ends with the server
        batcher = Batcher(
            served.encode,
            size=settings.batch_sentences,
            wait=settings.batch_wait,
            limit=settings.max_waiting,
            watcher=metrics,
        )
        endpoints.batcher = batcher
        worker = asyncio.create_task(batcher.run())
        yield
        worker.cancel()
        await batcher.close()

    app = FastAPI(
        title=f"rankencoder: {settings.name}",
        description=_description(settings, served),
        version=__version__,
        lifespan=running,
        openapi_url=None,  # our own pages: FastAPI's know no limits, and load scripts from other machines
        redirect_slashes=False,
    )
    endpoints = Endpoints(served, settings, metrics, index)
    app.include_router(_router(endpoints, protected=key is not None))
    _add_docs(app, settings, served.dimension)
    app.add_exception_handler(HTTPException, _refuse_http)
    app.add_exception_handler(RequestValidationError, _refuse_invalid)
    # the last one added comes first
    app.add_middleware(Gate, max_body=settings.max_body, timeout=settings.timeout)
    if key is not None:
        app.add_middleware(KeyGate, digest=hashlib.sha256(key.encode()).digest(), open_paths=OPEN)
    app.add_middleware(Observer, metrics=metrics, paths=[*_PATHS, *OPEN, f"/v1/models/{settings.name}"])
    return app


_PATHS = ("/v1/embeddings", "/v1/models", "/similarity", "/explain", "/search", "/health", "/metrics")


def _router(endpoints: Endpoints, *, protected: bool) -> APIRouter:
    refusals: dict[int | str, dict[str, Any]] = {
        status: {"model": schemas.ErrorResponse, "description": text} for status, text in _REFUSALS.items()
    }
    dependencies = [Security(HTTPBearer(auto_error=False))] if protected else []  # for the description
    closed = APIRouter(route_class=JsonRoute, dependencies=dependencies, responses=refusals)
    for path, endpoint, answer in (
        ("/v1/embeddings", endpoints.embeddings, schemas.EmbeddingsResponse),
        ("/similarity", endpoints.similarity, schemas.SimilarityResponse),
        ("/explain", endpoints.explain, schemas.ExplainResponse),
        ("/search", endpoints.search, schemas.SearchResponse),
    ):
        closed.add_api_route(path, endpoint, methods=["POST"], response_model=answer)
    closed.add_api_route("/v1/models", endpoints.models, response_model=schemas.ModelsResponse)
    closed.add_api_route("/v1/models/{name:path}", endpoints.model, response_model=schemas.ServedModel)
    closed.add_api_route("/metrics", endpoints.figures, response_class=PlainTextResponse)
    router = APIRouter()
    router.include_router(closed)
    router.add_api_route("/health", endpoints.health, response_model=schemas.Health, responses=refusals)
    router.add_api_route("/health", endpoints.health, methods=["HEAD"], include_in_schema=False)
    return router


def _add_docs(app: FastAPI, settings: Settings, dimension: int) -> None:
    document = app.openapi()
    add_limits(document, settings, dimension)
    text = docs_page(document)

    async def openapi() -> Response:
        return json_response(document)

    async def page() -> Response:
        return HTMLResponse(text, headers={"Content-Security-Policy": POLICY})

    app.add_api_route("/openapi.json", openapi, include_in_schema=False)
    app.add_api_route("/docs", page, include_in_schema=False)


def _description(settings: Settings, served: Served) -> str:
    kind = "sentence vectors" if served.ranked is None else "sentence vectors that know a reference corpus"
    return (
        f"{served.dimension} numbers a sentence: {kind}. A request has at most {settings.max_sentences:,} "
        f"sentences of at most {settings.max_chars:,} characters, and {settings.max_body:,} bytes."
    )


async def _refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return of_http(error).response()


async def _refuse_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return of_validation(error.errors()).response()
