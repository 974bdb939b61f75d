"""What every request passes first: log, API key, and limits on size and time."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import time
import traceback
from collections.abc import Collection
from typing import Any
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rankencoder.server.http_errors import Refusal, error_response
from rankencoder.server.metrics import Metrics
from rankencoder.server.served_model import ABOUT_REQUEST
from rankencoder.server.server_settings import ServerSettings

LOG = logging.getLogger(__name__)
_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)
OPEN_PATHS = ("/health", "/openapi.json")  # they need no key


class RequestGuard:
    """Logs and counts every request, checks the API key, and limits the size of the body and the time.

    The log never holds a sentence or a key. Unexpected errors are a plain 500 outside. The work for a client
    that has left is cancelled.

    :param paths: The paths that exist; others are logged and counted as one.
    """

    def __init__(
        self, app: ASGIApp, *, settings: ServerSettings, metrics: Metrics, paths: Collection[str]
    ) -> None:
        self.app, self.metrics, self.paths = app, metrics, paths
        self.max_body, self.timeout = int(settings.max_body_mb * 1e6), settings.timeout
        self.authorization = None if settings.api_key is None else f"Bearer {settings.api_key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and log how it ends."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status, refusal = time.perf_counter(), 0, None
        given = Headers(scope=scope).get("x-request-id", "")
        about: dict[str, Any] = {"id": given if _ID.fullmatch(given) else uuid4().hex}
        ABOUT_REQUEST.set(about)

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", about["id"].encode())]
            await send(message)

        try:
            try:
                await self._answer(Request(scope, receive), watched)
            except HTTPException as error:
                refusal = error
            except ClientDisconnect:
                pass
            except Exception as error:
                trace = "".join(traceback.format_tb(error.__traceback__))
                LOG.error("unexpected %s\n%s", type(error).__name__, trace)  # its message may hold a sentence
                refusal = Refusal(
                    500, "the server failed at this request; its log says where", code="internal"
                )
            if refusal is not None and not status:
                await error_response(refusal)(scope, receive, watched)
        finally:
            seconds, status = time.perf_counter() - started, status or 499  # nginx's, for a client that left
            path = scope["path"] if scope["path"] in self.paths else "other"  # that could hold anything
            model = about.get("model", "")
            self.metrics.requests.labels(model, path, str(status)).inc()
            self.metrics.seconds.labels(model, path).observe(seconds)
            fields = {"client": (scope.get("client") or "-")[0], "method": scope["method"], "path": path}
            fields |= {"status": status, "ms": round(1e3 * seconds), "sentences": 0, **about}
            line = "{client} {method} {path} {status} {ms} ms, {sentences} sentences, {id}"
            LOG.info("%s", line.format(**fields), extra={"fields": fields})

    async def _answer(self, request: Request, send: Send) -> None:
        """Answer a request within its limits.

        :raises HTTPException: If it goes beyond one.
        """
        self._check_key(request)
        try:
            body = await asyncio.wait_for(self._read(request), self.timeout)
        except asyncio.TimeoutError:
            message = f"the body did not arrive within {self.timeout:g} s"
            raise Refusal(408, message, headers={"Connection": "close"}) from None

        async def replay() -> Message:
            return {"type": "http.request", "body": body}

        gone = asyncio.ensure_future(request.receive())  # all that is left to receive is the end
        work = asyncio.ensure_future(self.app(request.scope, replay, send))
        try:
            done, _ = await asyncio.wait(
                {gone, work}, timeout=self.timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if work in done:
                work.result()
            if not done:
                message = f"not done within {self.timeout:g} s: send fewer sentences at once, or try later"
                raise Refusal(503, message, code="timeout", headers={"Retry-After": "5"})
        finally:
            gone.cancel()
            work.cancel()
            await asyncio.gather(gone, work, return_exceptions=True)

    def _check_key(self, request: Request) -> None:
        if self.authorization is None or request.scope["path"] in OPEN_PATHS:
            return
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        given = f"{scheme.capitalize()} {key.strip()}".encode("latin-1")
        if not hmac.compare_digest(given, self.authorization):
            raise Refusal(
                401,
                "no API key, or a wrong one: send the header Authorization: Bearer KEY",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer", "Connection": "close"},
            )

    async def _read(self, request: Request) -> bytes:
        """Return the body, counted as it arrives."""
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > self.max_body:
                message = f"the body is larger than {self.max_body:,} bytes: send fewer sentences at once"
                raise Refusal(413, message, code="body_too_large")
        return bytes(body)
