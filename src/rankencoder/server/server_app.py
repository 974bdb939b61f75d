"""The server as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from secrets import compare_digest
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from rankencoder._version import __version__
from rankencoder.encoders import Encoder
from rankencoder.io.corpus import LONGEST
from rankencoder.model import RankEncoder
from rankencoder.server import schemas
from rankencoder.server.endpoints import Endpoints
from rankencoder.server.http_errors import HANDLERS, ApiError
from rankencoder.server.request_log import Metrics, RequestLog
from rankencoder.server.served_model import ServedModel

BATCH = 64  # sentences
_BEARER = HTTPBearer(auto_error=False)


def create_app(
    model: RankEncoder | Encoder | Mapping[str, RankEncoder | Encoder],
    *,
    name: str = "rankencoder",
    index: Any = None,
    api_key: str | None = None,
    batch_size: int = BATCH,
) -> FastAPI:
    """Create the ASGI application that serves one or more models, to be run in a single process.

    :param model: A RankEncoder, or a plain encoder (without explanations); or several of them by name, the
        first being the default.
    :param name: The name of a single model in requests.
    :param index: A `RankIndex` for ``/search``, made with one of the models.
    :param api_key: The API key that clients must send.
    :param batch_size: Maximum sentences per batch.
    """
    metrics = Metrics()
    named = model if isinstance(model, Mapping) else {name: model}
    owner = None if index is None else index.model if isinstance(model, Mapping) else model
    indexes = {id(owner): index}
    served = [ServedModel(one, key, indexes.get(id(one)), metrics, batch_size) for key, one in named.items()]
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
            f"{schemas.MAX_SENTENCES:,} sentences of {LONGEST:,} characters."
        ),
        version=__version__,
        lifespan=running,
        docs_url=None,  # FastAPI's pages load scripts from a CDN
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers=HANDLERS,
        responses={"default": {"model": schemas.ErrorResponse, "description": "An error."}},
    )
    routes = APIRouter()
    for path, endpoint, answer in (
        ("/v1/embeddings", endpoints.embeddings, schemas.EmbeddingsResponse),
        ("/similarity", endpoints.similarity, schemas.SimilarityResponse),
        ("/explain", endpoints.explain, schemas.ExplainResponse),
        ("/search", endpoints.search, schemas.SearchResponse),
    ):
        routes.add_api_route(path, endpoint, methods=["POST"], response_model=answer)
    routes.add_api_route("/v1/models", endpoints.list_models)
    routes.add_api_route("/v1/models/{name:path}", endpoints.model)
    routes.add_api_route("/metrics", endpoints.prometheus, response_class=PlainTextResponse)
    app.include_router(routes, dependencies=[Security(_check_key(api_key))] if api_key else [])
    app.add_api_route("/health", endpoints.health)
    app.add_api_route("/health", endpoints.health, methods=["HEAD"], include_in_schema=False)
    paths = {route.path for route in (*app.routes, *routes.routes) if isinstance(route, Route)}
    app.add_middleware(RequestLog, metrics=metrics, paths=paths)
    return app


def _check_key(api_key: str) -> Callable[..., None]:
    """Return a dependency that rejects requests without the key."""

    def check(given: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)]) -> None:
        if given is None or not compare_digest(given.credentials.encode(), api_key.encode()):
            message = "missing or wrong API key: send the header Authorization: Bearer KEY"
            raise ApiError(401, message, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})

    return check
