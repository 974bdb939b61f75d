"""The page at ``/docs``: no scripts, nothing from other machines."""

from __future__ import annotations

import json
from html import escape
from typing import Any

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "pre{background:#f4f4f4;padding:.7rem;overflow:auto}h2{margin-top:2rem}code{font-size:.95em}"
    "td,th{text-align:left;padding:.1rem 1rem .1rem 0;vertical-align:top}"
)
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""What the page may load: nothing but its own style."""


def docs_page(schema: dict[str, Any]) -> str:
    """Return an OpenAPI document as a page to read."""
    title = escape(schema["info"]["title"])
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{_STYLE}</style>",
        f"<h1>{title}</h1><p>{escape(schema['info'].get('description', ''))}</p>",
        "<p>For programs: <a href=openapi.json>openapi.json</a></p>",
    ]
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            parts.append(_operation(method.upper(), path, operation, schema["components"]["schemas"]))
    return "\n".join(parts) + "</html>\n"


def _operation(method: str, path: str, operation: dict[str, Any], models: dict[str, Any]) -> str:
    text = f"<h2><code>{method} {escape(path)}</code></h2><p>{escape(operation.get('description', ''))}</p>"
    body = operation.get("requestBody")
    if body is None:
        return text
    model = models[body["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[1]]
    rows = "".join(_field(name, about, name in model.get("required", ())) for name, about in _fields(model))
    example = json.dumps(
        {name: _example(about) for name, about in _fields(model) if name in model["required"]}
    )
    command = f"curl -H 'Content-Type: application/json' -d '{example}' http://HOST:PORT{path}"
    return f"{text}<table>{rows}</table><pre>{escape(command)}</pre>"


def _fields(model: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return list(model["properties"].items())


def _field(name: str, about: dict[str, Any], required: bool) -> str:
    note = "required" if required else f"default {json.dumps(about.get('default'))}"
    return f"<tr><td><code>{escape(name)}</code><td>{escape(about.get('description', ''))}<td>{escape(note)}"


def _example(about: dict[str, Any]) -> str:
    return str(about.get("example") or next((kind["example"] for kind in about.get("anyOf", ())), "…"))
