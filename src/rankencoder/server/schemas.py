"""What requests and answers look like."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

NOT_BLANK = r"[^\s\x1c-\x1f\x85]"
"""What a sentence must hold; the separators are blank to Python, and not to other languages."""

_TEXT: dict[str, Any] = {"type": "string", "minLength": 1, "pattern": NOT_BLANK, "example": "A cat sleeps."}
_LIST: dict[str, Any] = {"type": "array", "minItems": 1, "items": _TEXT}


def _sentences(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise ValueError("give a sentence or a list of sentences")
    if not value:
        raise ValueError("the list is empty: give at least one sentence")
    if all(_is_token(item) or (isinstance(item, list) and all(map(_is_token, item))) for item in value):
        raise ValueError("token numbers mean nothing to this model: send the text itself")
    for i, item in enumerate(value):
        if not isinstance(item, str):
            raise ValueError(f"sentence {i} is not a string")
    return value


def _is_token(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _integer(value: Any) -> Any:
    """JSON has but one kind of number: 5.0 is an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Sentence = Annotated[str, WithJsonSchema(_TEXT)]
Sentences = Annotated[str | list[str], BeforeValidator(_sentences), WithJsonSchema({"anyOf": [_TEXT, _LIST]})]
Integer = Annotated[int, BeforeValidator(_integer), Field(strict=True)]
Neighbours = Annotated[Integer, Field(ge=1), WithJsonSchema({"type": "integer", "minimum": 1})]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class EmbeddingsRequest(_Request):
    """Sentences to encode, as OpenAI's clients ask for it."""

    input: Sentences = Field(description="A sentence, or several.")
    model: str | None = Field(None, description="The served model's name (see /v1/models), or nothing.")
    encoding_format: Literal["float", "base64"] = Field(
        "float", description="Numbers, or float32 in little-endian order as base64."
    )
    dimensions: Integer | None = Field(None, description="Only the model's own number is accepted.")
    user: str | None = Field(None, description="Accepted and ignored.")


class SimilarityRequest(_Request):
    """Sentences to compare: each of a with each of b."""

    a: Sentences
    b: Sentences


class ExplainRequest(_Request):
    """Two sentences whose similarity is to be explained."""

    a: Sentence
    b: Sentence
    k: Neighbours = Field(100, description="Nearest reference sentences of each to look at for shared ones.")


class SearchRequest(_Request):
    """A sentence to look for in the index."""

    query: Sentence
    k: Neighbours = Field(10, description="Results.")
    where: Sentence | None = Field(None, description="An SQL filter: columns compared with values.")


class Usage(BaseModel):
    """Tokens that the model read."""

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


class ServedModel(BaseModel):
    """A model that can be asked."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str


class ModelsResponse(BaseModel):
    """All models here: one."""

    object: Literal["list"] = "list"
    data: list[ServedModel]


class SimilarityResponse(BaseModel):
    """``similarity[i][j]`` is that of a's sentence i and b's sentence j."""

    model: str
    similarity: list[list[float]]
    usage: Usage


class NeighborOut(BaseModel):
    """A reference sentence near to a sentence."""

    rank: int
    similarity: float
    sentence: str


class SharedNeighborOut(BaseModel):
    """A reference sentence near to both."""

    sentence: str
    rank_a: int
    rank_b: int
    similarity_a: float
    similarity_b: float


class ExplainResponse(BaseModel):
    """How similar two sentences are, and what they have in common."""

    a: str
    b: str
    cosine: float
    rank_similarity: float
    similarity: float
    rank_weight: float
    k: int
    shared: list[SharedNeighborOut]
    neighbors_a: list[NeighborOut]
    neighbors_b: list[NeighborOut]


class Found(BaseModel):
    """A text of the index."""

    id: Any
    text: str
    score: float
    percentile: float | None
    columns: dict[str, Any]


class SearchResponse(BaseModel):
    """What the index holds that is near to the query, nearest first."""

    model: str
    results: list[Found]


class Health(BaseModel):
    """The server answers."""

    status: Literal["ok"] = "ok"
    model: str
    dimension: int
    version: str


class ErrorBody(BaseModel):
    """What was wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorResponse(BaseModel):
    """An answer to a request that cannot be met, in OpenAI's shape."""

    error: ErrorBody
