"""What a client is told when something is wrong, in OpenAI's shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.responses import Response

_PLACES = ("body", "query", "path", "header")
_NEEDLESS = "Value error, "  # pydantic's words before our own


class Refusal(Exception):
    """A request that is not answered, with the reason.

    :param status: The HTTP status.
    :param message: What was wrong, and what to do.
    :param param: The field at fault.
    :param code: A short name of the reason, for programs.
    :param headers: More headers of the answer.
    """

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
        self.status, self.message, self.param, self.code = status, message, param, code
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """Return the answer."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return json_response({"error": error}, self.status, self.headers)


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return plain data as JSON: NaN and infinity as null, bytes as base64, the rest as text."""
    content = to_json(value, inf_nan_mode="null", bytes_mode="base64", fallback=str)
    return Response(content, status, media_type="application/json", headers=headers)


def of_http(error: HTTPException) -> Refusal:
    """Turn an error of the framework (no such path, wrong method) into a refusal."""
    if error.status_code == 404:
        return Refusal(404, "no such path here: see /docs", code="not_found")
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another method")
        message = f"this path does not take that method: use {allowed}"
        return Refusal(405, message, code="method_not_allowed", headers=error.headers)
    return Refusal(error.status_code, clean(str(error.detail)), headers=error.headers)


def of_validation(errors: Sequence[Any]) -> Refusal:
    """Turn the first of pydantic's complaints into one line that repeats nothing of what was sent."""
    first = errors[0]
    place = [str(part) for part in first["loc"] if part not in _PLACES]
    param = clean(".".join(place)[:100]) or None
    message = str(first["msg"]).removeprefix(_NEEDLESS)
    if first["type"] == "extra_forbidden":
        message = "no such field here"
    return Refusal(422, f"{param or 'body'}: {message}", param=param, code="invalid_value")


def clean(text: str) -> str:
    """Return a text as UTF-8 can carry it."""
    return text.encode("utf-8", "replace").decode("utf-8")
