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
POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # it loads nothing but its own style


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
            about = escape(operation.get("description", ""))
            parts.append(f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{about}</p>")
            if "requestBody" in operation:
                name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
                parts.append(_request(path, schema["components"]["schemas"][name.rsplit("/", 1)[1]]))
    return "\n".join(parts) + "</html>\n"


def _request(path: str, model: dict[str, Any]) -> str:
    """Return the fields of a request as a table, and an example of it."""
    rows, example = "", {}
    for name, about in model["properties"].items():
        note = f"default {json.dumps(about.get('default'))}"
        if name in model["required"]:
            note, example[name] = "required", about["examples"][0]
        rows += (
            f"<tr><td><code>{escape(name)}</code><td>{escape(about.get('description', ''))}<td>{escape(note)}"
        )
    command = f"curl -H 'Content-Type: application/json' -d '{json.dumps(example)}' http://HOST:PORT{path}"
    return f"<table>{rows}</table><pre>{escape(command)}</pre>"
