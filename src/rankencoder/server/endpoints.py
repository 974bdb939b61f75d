"""The endpoints of a server."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from fastapi import HTTPException, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from rankencoder._version import __version__
from rankencoder.errors import InputError
from rankencoder.io.corpus import check_sentences
from rankencoder.server import schemas
from rankencoder.server.filters import check_filter
from rankencoder.server.http_errors import Refusal, clean, json_response
from rankencoder.server.metrics import Metrics
from rankencoder.server.request_batching import Batcher, Busy
from rankencoder.server.served_model import Encoded, Served
from rankencoder.server.server_settings import Settings

T = TypeVar("T")


class JsonRoute(APIRoute):
    """A route whose body is strict JSON, or a refusal that says what else it is."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, behind a stricter reading of the body."""
        handle = super().get_route_handler()

        async def read(request: Request) -> Response:
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if request.method == "POST" and kind != "application/json":
                raise Refusal(415, "the body must be JSON: send Content-Type: application/json")
            return await handle(_JsonRequest(request.scope, request.receive))

        return read


class _JsonRequest(Request):
    async def json(self) -> Any:
        try:
            return json.loads((await self.body()).decode("utf-8"), parse_constant=_refuse)
        except json.JSONDecodeError as error:
            problem = f"{error.msg} at line {error.lineno}, column {error.colno}"
        except UnicodeDecodeError as error:
            problem = f"byte {error.start} is not UTF-8"
        except RecursionError:
            problem = "it is nested too deeply"
        except ValueError as error:
            problem = str(error).partition(":")[0]
        raise HTTPException(400, f"the body is no JSON that can be read: {problem}")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number in JSON")


@dataclass
class Endpoints:
    """What the paths of a server do.

    :param index: An index made with the same model, or None.
    """

    served: Served
    settings: Settings
    metrics: Metrics
    index: Any = None
    created: int = field(default_factory=lambda: int(time.time()))
    batcher: Batcher = field(init=False)

    async def embeddings(self, request: schemas.EmbeddingsRequest) -> Response:
        """Return the vectors of sentences, as OpenAI does."""
        name, dimension = self.settings.name, self.served.dimension
        if request.model is not None:
            self._check_model(request.model)
        if request.dimensions not in (None, dimension):
            message = f"the vectors have {dimension} numbers, which cannot be changed: leave dimensions out"
            raise Refusal(422, message, param="dimensions", code="invalid_value")
        sentences = self._checked("input", request.input)
        encoded = await self._encode(sentences)
        rows: list[Any]
        if request.encoding_format == "base64":
            rows = [base64.b64encode(row.tobytes()).decode() for row in encoded.vectors.astype("<f4")]
        else:
            rows = encoded.vectors.tolist()
        data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
        return json_response({"object": "list", "data": data, "model": name, "usage": _usage(encoded)})

    async def models(self) -> schemas.ModelsResponse:
        """List the served model, as OpenAI does."""
        return schemas.ModelsResponse(data=[await self.model(self.settings.name)])

    async def model(self, name: str) -> schemas.ServedModel:
        """Return the served model, as OpenAI does."""
        self._check_model(name)
        return schemas.ServedModel(id=name, created=self.created, owned_by="rankencoder")

    async def similarity(self, request: schemas.SimilarityRequest) -> Response:
        """Return how similar each sentence of a is to each of b: Eq. 7, or a plain encoder's cosine."""
        a, b = self._checked("a", request.a), self._checked("b", request.b)
        if len(a) + len(b) > self.settings.max_sentences:
            raise Refusal(422, self._too_many(len(a) + len(b)), param="a", code="invalid_value")
        encoded = await self._encode([*a, *b])
        matrix: np.ndarray = encoded.vectors[: len(a)] @ encoded.vectors[len(a) :].T
        return json_response(
            {"model": self.settings.name, "similarity": matrix.tolist(), "usage": _usage(encoded)}
        )

    async def explain(self, request: schemas.ExplainRequest) -> Response:
        """Say why two sentences are similar: the reference sentences that both are near to."""
        if self.served.ranked is None:
            message = f"{self.settings.name} has no reference corpus to explain by: serve a RankEncoder"
            raise Refusal(409, message, code="no_reference_corpus")
        (a,), (b,) = self._checked("a", request.a), self._checked("b", request.b)
        k = self._checked_k(request.k)
        explanation, tokens = await self._asked(self.batcher.call(lambda: self.served.explain(a, b, k)))
        self.metrics.read(tokens, alone=2)
        return json_response(explanation)

    async def search(self, request: schemas.SearchRequest) -> Response:
        """Return the texts of the index that are nearest to a sentence."""
        index = self.index
        if index is None:
            message = "this server has no index: start it with rankencoder serve MODEL --index INDEX"
            raise Refusal(409, message, code="no_index")
        (query,) = self._checked("query", request.query)
        k, where = self._checked_k(request.k), request.where
        if where is not None:
            (where,) = self._checked("where", where)
            await self._check_filter(where)
        vector = (await self._encode([query])).vectors[0]
        found = await self._asked(self.batcher.call(lambda: index.search(vector, k, where=where)))
        return json_response({"model": self.settings.name, "results": [hit.to_dict() for hit in found]})

    async def health(self) -> schemas.Health:
        """Say that the server answers; needs no key."""
        return schemas.Health(model=self.settings.name, dimension=self.served.dimension, version=__version__)

    async def figures(self) -> Response:
        """Return Prometheus' figures."""
        return Response(self.metrics.render(), headers={"Content-Type": self.metrics.content_type})

    def _checked(self, param: str, given: str | list[str]) -> list[str]:
        sentences = [given] if isinstance(given, str) else given
        if len(sentences) > self.settings.max_sentences:
            raise Refusal(422, self._too_many(len(sentences)), param=param, code="invalid_value")
        longest = self.settings.max_chars
        try:
            for i, text in enumerate(sentences):
                if len(text) > longest:
                    raise InputError(
                        f"sentence {i} has {len(text):,} characters, more than {longest:,}: split it"
                    )
            return check_sentences(sentences)
        except InputError as error:
            raise Refusal(422, f"{param}: {clean(str(error))}", param=param, code="invalid_value") from error

    def _too_many(self, number: int) -> str:
        allowed = self.settings.max_sentences
        return f"{number:,} sentences are more than {allowed:,}, the most of one request: send several"

    def _checked_k(self, k: int) -> int:
        if k > self.settings.max_neighbors:
            raise Refusal(
                422, f"k must be at most {self.settings.max_neighbors:,}", param="k", code="invalid_value"
            )
        return k

    def _check_model(self, asked: str) -> None:
        name = self.settings.name
        if asked != name:
            message = f"there is no model {clean(asked[:80])!r} here, only {name!r}"
            raise Refusal(404, message, param="model", code="model_not_found")

    async def _check_filter(self, where: str) -> None:
        # anew each time, as others may add columns; in a thread, as it is read from disk
        columns = await asyncio.to_thread(lambda: self.index.columns)
        try:
            check_filter(where, ("id", "text", *columns))
        except InputError as error:
            raise Refusal(422, str(error), param="where", code="invalid_value") from error

    async def _encode(self, sentences: list[str]) -> Encoded:
        encoded = await self._asked(self.batcher.encode(sentences))
        self.metrics.read(sum(encoded.tokens))
        return encoded

    async def _asked(self, answer: Awaitable[T]) -> T:
        """Wait for the encoder's thread, and tell the client where it or its sentence is at fault."""
        try:
            return await answer
        except Busy as busy:
            raise Refusal(
                429, f"too busy: {busy}; try later", code="too_busy", headers={"Retry-After": "1"}
            ) from busy
        except InputError as error:
            raise Refusal(422, clean(str(error)), code="invalid_value") from error


def _usage(encoded: Encoded) -> dict[str, int]:
    tokens = sum(encoded.tokens)
    return {"prompt_tokens": tokens, "total_tokens": tokens}
