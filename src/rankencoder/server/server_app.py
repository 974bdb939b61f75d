"""The server as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from fastapi import FastAPI, Security
from fastapi.security import HTTPBearer
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from rankencoder._version import __version__
from rankencoder.encoders import Encoder
from rankencoder.io.corpus import LONGEST
from rankencoder.model import RankEncoder
from rankencoder.server import schemas
from rankencoder.server.endpoints import Endpoints
from rankencoder.server.http_errors import HANDLERS
from rankencoder.server.metrics import Metrics
from rankencoder.server.request_guard import RequestGuard
from rankencoder.server.served_model import ServedModel
from rankencoder.server.server_settings import MAX_SENTENCES, ServerSettings


def create_app(
    model: RankEncoder | Encoder | Mapping[str, RankEncoder | Encoder],
    settings: ServerSettings | None = None,
    *,
    index: Any = None,
) -> FastAPI:
    """Return a server for a model, to be run by uvicorn or any other ASGI server, in one process.

    :param model: A RankEncoder, or a plain encoder, which explains nothing; or several of them by name, the
        first being that of requests without a name.
    :param index: A `RankIndex` for ``/search``, made with one of the models.
    """
    settings = settings or ServerSettings()
    metrics = Metrics()
    named = model if isinstance(model, Mapping) else {settings.name: model}
    owner = None if index is None else index.model if isinstance(model, Mapping) else model
    indexes = {id(owner): index}
    served = [ServedModel(one, name, indexes.get(id(one)), metrics, settings) for name, one in named.items()]
    endpoints = Endpoints(served, metrics)
    first = served[0]

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for one in served:
                await stack.enter_async_context(one.running())
            yield

    app = FastAPI(
        title=f"rankencoder: {', '.join(named)}",
        description=(
            f"Sentence vectors with {first.dimension} dimensions. A request has at most "
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
        ("/explain", endpoints.explain, schemas.ExplainResponse),
        ("/search", endpoints.search, schemas.SearchResponse),
    ):
        app.add_api_route(path, endpoint, methods=["POST"], response_model=answer)
    app.add_api_route("/v1/models", endpoints.list_models)
    app.add_api_route("/v1/models/{name:path}", endpoints.model)
    app.add_api_route("/metrics", endpoints.figures, response_class=PlainTextResponse)
    app.add_api_route("/health", endpoints.health)
    app.add_api_route("/health", endpoints.health, methods=["HEAD"], include_in_schema=False)
    paths = {route.path for route in app.routes if isinstance(route, Route)}
    app.add_middleware(RequestGuard, settings=settings, metrics=metrics, paths=paths)
    return app
