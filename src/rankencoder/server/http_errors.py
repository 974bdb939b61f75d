"""Errors in OpenAI's format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from rankencoder.errors import InputError


class ApiError(HTTPException):
    """An HTTP error with the offending field and a machine-readable code."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, headers)
        self.param, self.code = param, code


def error_response(error: HTTPException) -> Response:
    """Return an error in OpenAI's format."""
    body = {
        "message": error.detail,
        "type": "invalid_request_error" if error.status_code < 500 else "server_error",
        "param": getattr(error, "param", None),
        "code": getattr(error, "code", None),
    }
    # ASCII, as a field's name may be a lone surrogate, which UTF-8 cannot encode
    return Response(json.dumps({"error": body}), error.status_code, error.headers, "application/json")


async def _handle_http_error(request: Request, error: HTTPException) -> Response:
    return error_response(error)


async def _handle_input_error(request: Request, error: InputError) -> Response:
    return error_response(ApiError(422, str(error), code="invalid_value"))


async def _handle_invalid_fields(request: Request, error: RequestValidationError) -> Response:
    """Return the first validation error as one line, without the client's input."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        message = f"the body is not JSON: {first['ctx']['error']} at character {first['loc'][-1]}"
        return error_response(ApiError(400, message))
    place = [str(part)[:100] for part in first["loc"][1:]]  # after "body" or "path"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = "unknown field"
    param = place[0] if place else None
    where = ".".join(place) or "body"
    return error_response(ApiError(422, f"{where}: {message}", param=param, code="invalid_value"))


HANDLERS: dict[Any, Any] = {
    HTTPException: _handle_http_error,
    InputError: _handle_input_error,
    RequestValidationError: _handle_invalid_fields,
}
