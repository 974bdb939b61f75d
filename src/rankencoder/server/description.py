"""The OpenAPI document, with the limits of this very server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rankencoder.server.schemas import NOT_BLANK
from rankencoder.server.server_settings import Settings


def add_limits(document: dict[str, Any], settings: Settings, dimension: int) -> None:
    """Write into an OpenAPI document what only this server knows.

    :param document: The document, which is changed.
    :param dimension: Numbers of a vector.
    """
    models = document["components"]["schemas"]
    asked = models["EmbeddingsRequest"]["properties"]
    asked["model"]["enum"] = [settings.name, None]
    asked["dimensions"]["enum"] = [dimension, None]
    (name_of_model,) = document["paths"]["/v1/models/{name}"]["get"]["parameters"]
    name_of_model["schema"]["enum"] = [settings.name]
    for name in ("ExplainRequest", "SearchRequest"):
        models[name]["properties"]["k"]["maximum"] = settings.max_neighbors
    for node in _nodes(models):
        if node.get("pattern") == NOT_BLANK:
            node["maxLength"] = settings.max_chars
        elif node.get("items", {}).get("pattern") == NOT_BLANK:
            node["maxItems"] = settings.max_sentences


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _nodes(item)
