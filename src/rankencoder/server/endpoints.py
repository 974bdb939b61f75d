"""The endpoints of a server."""

from __future__ import annotations

import base64
import time
from typing import Any

import numpy as np
from prometheus_client import generate_latest
from pydantic_core import to_json
from starlette.responses import PlainTextResponse, Response

from rankencoder._version import __version__
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.model import RankEncoder
from rankencoder.server import schemas
from rankencoder.server.http_errors import Refusal
from rankencoder.server.metrics import Metrics
from rankencoder.server.request_batching import Batcher, Encoded


class Endpoints:
    """What the paths of a server do.

    :param served: A RankEncoder, or a plain encoder, which explains nothing.
    :param name: What requests call it.
    """

    batcher: Batcher

    def __init__(self, served: RankEncoder | Encoder, name: str, metrics: Metrics, index: Any = None) -> None:
        self.served, self.name, self.metrics, self.index = served, name, metrics, index
        self.created = int(time.time())
        self.dimension = self.encode(["Warm up."]).vectors.shape[1]

    def encode(self, sentences: list[str]) -> Encoded:
        """Return the vectors of sentences, and their tokens; for one thread at a time."""
        return Encoded(self.served.encode(sentences), self._count_tokens(sentences))

    async def embeddings(self, request: schemas.EmbeddingsRequest) -> Response:
        """Return the vectors of sentences, as OpenAI does."""
        if request.model is not None:
            self._check_model(request.model)
        if request.dimensions not in (None, self.dimension):
            message = f"the vectors have {self.dimension} dimensions, which cannot be changed: leave it out"
            raise Refusal(422, f"dimensions: {message}", param="dimensions", code="invalid_value")
        encoded = await self._encode(request.input)
        rows: list[Any]
        if request.encoding_format == "base64":
            rows = [base64.b64encode(row.tobytes()).decode() for row in encoded.vectors.astype("<f4")]
        else:
            rows = encoded.vectors.tolist()
        data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
        return _json({"object": "list", "data": data, "model": self.name, "usage": _usage(encoded)})

    async def models(self) -> schemas.ModelsResponse:
        """List the served model, as OpenAI does."""
        return schemas.ModelsResponse(data=[await self.model(self.name)])

    async def model(self, name: str) -> schemas.ModelInfo:
        """Return the served model, as OpenAI does."""
        self._check_model(name)
        return schemas.ModelInfo(id=name, created=self.created, owned_by="rankencoder")

    async def similarity(self, request: schemas.SimilarityRequest) -> Response:
        """Return how similar each sentence of a is to each of b: Eq. 7, or a plain encoder's cosine."""
        encoded = await self._encode([*request.a, *request.b])
        matrix: np.ndarray = encoded.vectors[: len(request.a)] @ encoded.vectors[len(request.a) :].T
        return _json({"model": self.name, "similarity": matrix.tolist(), "usage": _usage(encoded)})

    async def explain(self, request: schemas.ExplainRequest) -> Response:
        """Say why two sentences are similar: the reference sentences that both are near to."""
        served, a, b = self.served, request.a, request.b
        if not isinstance(served, RankEncoder):
            message = f"{self.name} has no reference corpus to explain by: serve a RankEncoder"
            raise Refusal(409, message, code="no_reference_corpus")
        explanation, tokens = await self.batcher.call(
            lambda: (served.explain(a, b, request.k), self._count_tokens([a, b]))
        )
        self.metrics.tokens.inc(sum(tokens))
        self.metrics.sentences.inc(2)
        return _json(explanation.to_dict())

    async def search(self, request: schemas.SearchRequest) -> Response:
        """Return the texts of the index that are nearest to a sentence."""
        index = self.index
        if index is None:
            raise Refusal(409, "this server has no index to search: start it with one", code="no_index")
        vector = (await self._encode([request.query])).vectors[0]
        try:
            found = await self.batcher.call(lambda: index.search(vector, request.k, where=request.where))
        except InputError as error:
            param = None if request.where is None else "where"
            raise Refusal(422, str(error), param=param, code="invalid_value") from error
        return _json({"model": self.name, "results": [hit.to_dict() for hit in found]})

    async def health(self) -> schemas.Health:
        """Say that the server answers; needs no key."""
        return schemas.Health(model=self.name, dimension=self.dimension, version=__version__)

    async def figures(self) -> Response:
        """Return Prometheus' figures."""
        return PlainTextResponse(generate_latest(self.metrics.registry))

    def _check_model(self, asked: str) -> None:
        if asked != self.name:
            message = f"there is no model {asked[:80]!r} here, only {self.name!r}"
            raise Refusal(404, message, param="model", code="model_not_found")

    def _count_tokens(self, sentences: list[str]) -> list[int]:
        encoder = self.served.encoder if isinstance(self.served, RankEncoder) else self.served
        counts, longest = encoder.count_tokens(sentences)
        return [int(min(count, longest)) for count in counts]

    async def _encode(self, sentences: list[str]) -> Encoded:
        encoded = await self.batcher.encode(sentences)
        self.metrics.tokens.inc(sum(encoded.tokens))
        return encoded


def _usage(encoded: Encoded) -> dict[str, int]:
    tokens = sum(encoded.tokens)
    return {"prompt_tokens": tokens, "total_tokens": tokens}


def _json(value: Any) -> Response:
    return Response(to_json(value, inf_nan_mode="null"), media_type="application/json")
