"""Request handlers of the server."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from prometheus_client import generate_latest
from pydantic_core import to_json
from starlette.responses import PlainTextResponse, Response

from rankencoder._version import __version__
from rankencoder.errors import InputError
from rankencoder.model import RankEncoder
from rankencoder.server import schemas
from rankencoder.server.http_errors import ApiError
from rankencoder.server.request_log import Metrics
from rankencoder.server.served_model import Encoded, ServedModel


class Endpoints:
    """The handlers of the server's paths.

    :param models: The first is the default.
    """

    def __init__(self, models: Sequence[ServedModel], metrics: Metrics) -> None:
        self.models, self.metrics = {model.name: model for model in models}, metrics
        self.created = int(time.time())

    async def embeddings(self, request: schemas.EmbeddingsRequest) -> Response:
        """Return the vectors of sentences, in OpenAI's format."""
        model = self._model(request.model)
        if request.dimensions not in (None, model.dimension):
            message = f"the model has {model.dimension} dimensions, which cannot be changed: omit the field"
            raise ApiError(422, f"dimensions: {message}", param="dimensions", code="invalid_value")
        encoded = await model.encode(request.input)
        rows: list[Any]
        if request.encoding_format == "base64":
            rows = [base64.b64encode(row.tobytes()).decode() for row in encoded.vectors.astype("<f4")]
        else:
            rows = encoded.vectors.tolist()
        data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
        return _json({"object": "list", "data": data, "model": model.name, "usage": _usage(encoded)})

    async def list_models(self) -> schemas.ModelsResponse:
        """List the served models, in OpenAI's format."""
        return schemas.ModelsResponse(data=[await self.model(name) for name in self.models])

    async def model(self, name: str) -> schemas.ModelInfo:
        """Describe a served model, in OpenAI's format."""
        self._model(name)
        return schemas.ModelInfo(id=name, created=self.created, owned_by="rankencoder")

    async def similarity(self, request: schemas.SimilarityRequest) -> Response:
        """Compare each sentence of a with each of b, by Eq. 7 or a plain encoder's cosine."""
        model = self._model(request.model)
        encoded = await model.encode([*request.a, *request.b])
        matrix: np.ndarray = encoded.vectors[: len(request.a)] @ encoded.vectors[len(request.a) :].T
        curve = model.curve
        probability = None if curve is None else curve.p_same(matrix).tolist()
        similar = {"model": model.name, "similarity": matrix.tolist(), "probability": probability}
        return _json({**similar, "usage": _usage(encoded)})

    async def explain(self, request: schemas.ExplainRequest) -> Response:
        """Explain a similarity by the reference sentences near both sentences."""
        model, a, b = self._model(request.model), request.a, request.b
        encoder = model.encoder
        if not isinstance(encoder, RankEncoder):
            message = f"{model.name} has no reference corpus to explain with: serve a RankEncoder"
            raise ApiError(409, message, code="no_reference_corpus")
        explanation = await model.run_between_batches([a, b], lambda: encoder.explain(a, b, request.k))
        curve = model.curve
        probability = None if curve is None else float(curve.p_same(explanation.similarity))
        return _json({**explanation.to_dict(), "probability": probability})

    async def search(self, request: schemas.SearchRequest) -> Response:
        """Search the index for the sentences nearest to a query."""
        model = self._model(request.model)
        if model.index is None:
            message = f"{model.name} has no index to search: start the server with one"
            raise ApiError(409, message, code="no_index")
        vector = (await model.encode([request.query])).vectors[0]
        try:
            found = await model.run_between_batches(
                [], lambda: model.current_index().search(vector, request.k, where=request.where)
            )
        except InputError as error:
            param = None if request.where is None else "where"
            raise ApiError(422, str(error), param=param, code="invalid_value") from error
        return _json({"model": model.name, "results": [hit.to_dict() for hit in found]})

    async def health(self) -> schemas.Health:
        """Liveness check; needs no API key."""
        first, *_ = self.models.values()
        return schemas.Health(
            model=first.name, models=list(self.models), dimension=first.dimension, version=__version__
        )

    async def prometheus(self) -> Response:
        """Prometheus metrics."""
        return PlainTextResponse(generate_latest(self.metrics.registry))

    def _model(self, name: str | None) -> ServedModel:
        """Return the requested model, or the first."""
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            message = f"no model {name[:80]!r}: choose from {', '.join(map(repr, self.models))}"
            raise ApiError(404, message, param="model", code="model_not_found")
        return self.models[name]


def _usage(encoded: Encoded) -> dict[str, int]:
    tokens = sum(encoded.tokens)
    return {"prompt_tokens": tokens, "total_tokens": tokens}


def _json(value: Any) -> Response:
    return Response(to_json(value, inf_nan_mode="null"), media_type="application/json")
