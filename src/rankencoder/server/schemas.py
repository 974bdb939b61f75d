"""Requests and responses, as pydantic checks and OpenAPI describes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from rankencoder.explain import Explanation
from rankencoder.io.corpus import LONGEST
from rankencoder.search.index_rows import Hit

MAX_SENTENCES = 2048  # per request, as in OpenAI's API
MAX_NEIGHBORS = 1000
_MAX_FILTER = 10_000  # characters
_NOT_BLANK = r"[^\s\x1c-\x1f\x85]"  # separators are blank in Python, but not in other languages

Sentence = Annotated[
    str, Field(strict=True, max_length=LONGEST, pattern=_NOT_BLANK, examples=["A cat sleeps."])
]


def _as_list(value: Any) -> Any:
    if isinstance(value, list) and value and all(type(item) in (int, list) for item in value):
        raise ValueError("token ids are not supported: send text")
    return [value] if isinstance(value, str) else value


def _checked_filter(where: dict[str, Any]) -> dict[str, Any]:
    if len(json.dumps(where)) > _MAX_FILTER:
        raise ValueError(f"cannot filter by more than {_MAX_FILTER:,} characters")
    return where


_TEXT = {"type": "string", "maxLength": LONGEST, "pattern": _NOT_BLANK}
_LIST = {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": MAX_SENTENCES}
Sentences = Annotated[
    list[Sentence],
    Field(min_length=1, max_length=MAX_SENTENCES),
    BeforeValidator(_as_list),
    WithJsonSchema({"anyOf": [_TEXT, _LIST], "examples": ["A cat sleeps."]}),
]
Count = Annotated[int, Field(ge=1, le=MAX_NEIGHBORS)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(None, description="A served model (see /v1/models); by default the first.")


class EmbeddingsRequest(_Request):
    """Sentences to encode, in OpenAI's format."""

    input: Sentences = Field(description="One or more sentences.")
    encoding_format: Literal["float", "base64"] = Field(
        "float", description="Numbers, or base64 of little-endian float32."
    )
    dimensions: int | None = Field(None, description="Only the model's own dimension is accepted.")
    user: str | None = Field(None, description="Accepted and ignored.")


class SimilarityRequest(_Request):
    """Sentences to compare: each of a with each of b."""

    a: Sentences
    b: Sentences

    @model_validator(mode="after")
    def _check_number(self) -> SimilarityRequest:
        if len(self.a) + len(self.b) > MAX_SENTENCES:
            raise ValueError(f"a and b have more than {MAX_SENTENCES:,} sentences together")
        return self


class ExplainRequest(_Request):
    """Two sentences whose similarity to explain."""

    a: Sentence
    b: Sentence
    k: Count = Field(100, description="Nearest reference sentences of each to compare.")


class SearchRequest(_Request):
    """A query for the index."""

    query: Sentence
    k: Count = Field(10, description="Number of results.")
    where: Annotated[dict[str, Any], AfterValidator(_checked_filter)] | None = Field(
        None,
        description="Filter: a value, a list of values, or gt, gte, lt, lte, prefix, not for each column.",
        examples=[{"lang": ["en", "de"], "year": {"gte": 1990}}],
    )


class Usage(BaseModel):
    """Token counts."""

    prompt_tokens: int
    total_tokens: int


class Embedding(BaseModel):
    """The vector of a sentence."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingsResponse(BaseModel):
    """One vector per sentence, in the order of the request."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: Usage


class ModelInfo(BaseModel):
    """A served model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str


class ModelsResponse(BaseModel):
    """All served models."""

    object: Literal["list"] = "list"
    data: list[ModelInfo]


class SimilarityResponse(BaseModel):
    """``similarity[i][j]`` compares sentence i of a with sentence j of b."""

    model: str
    similarity: list[list[float]]
    probability: list[list[float]] | None = Field(None, description="P(same), if pairs were labeled.")
    usage: Usage


@dataclass(frozen=True)
class ExplainResponse(Explanation):
    """Why two sentences are similar."""

    probability: float | None = None


class SearchResponse(BaseModel):
    """The sentences of the index nearest to the query, in order."""

    model: str
    results: list[Hit]


class Health(BaseModel):
    """The server is up."""

    status: Literal["ok"] = "ok"
    model: str
    models: list[str]
    dimension: int
    version: str


class ErrorBody(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorResponse(BaseModel):
    """An error in OpenAI's format."""

    error: ErrorBody
