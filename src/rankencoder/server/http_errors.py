"""What a client is told when something is wrong, in OpenAI's shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.responses import Response

STATUSES = {  # for the OpenAPI document
    400: "The body is not JSON.",
    401: "No API key, or a wrong one.",
    404: "No such model.",
    408: "The body took too long to arrive.",
    409: "This server has no reference corpus or no index.",
    413: "The body is too large.",
    422: "A field is missing or wrong; the message says which.",
    429: "Too many sentences wait to be encoded.",
    500: "The server failed.",
    503: "It took too long.",
}


class Refusal(Exception):
    """A request that is not answered, and the reason: the field at fault, and a code for programs."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code, self.headers = status, message, param, code, headers

    def response(self) -> Response:
        """Return the answer."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": clean(self.message), "type": kind, "param": self.param, "code": self.code}
        return json_response({"error": error}, self.status, self.headers)


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return plain data as JSON: NaN and infinity as null, bytes as base64, the rest as text."""
    content = to_json(value, inf_nan_mode="null", bytes_mode="base64", fallback=str)
    return Response(content, status, media_type="application/json", headers=headers)


def clean(text: str) -> str:
    """Return a text as UTF-8 can carry it."""
    return text.encode("utf-8", "replace").decode("utf-8")


def add_handlers(app: FastAPI) -> None:
    """Give the errors of FastAPI (no such path, wrong method, wrong fields) OpenAI's shape."""

    @app.exception_handler(HTTPException)
    async def refuse_http(request: Request, error: HTTPException) -> Response:
        return Refusal(error.status_code, str(error.detail), headers=error.headers).response()

    @app.exception_handler(RequestValidationError)
    async def refuse_fields(request: Request, error: RequestValidationError) -> Response:
        return _of_validation(error.errors()[0]).response()


def _of_validation(first: dict[str, Any]) -> Refusal:
    """Turn the first of pydantic's errors into one line that repeats nothing of what was sent."""
    if first["type"] == "json_invalid":
        return Refusal(400, f"the body is not JSON: {first['ctx']['error']} at character {first['loc'][-1]}")
    place = [str(part) for part in first["loc"][1:]]  # after "body" or "path"
    message = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = "no such field here"
    where = clean(".".join(place)[:100])
    param = clean(place[0][:100]) if place else None
    return Refusal(422, f"{where or 'body'}: {message}", param=param, code="invalid_value")
