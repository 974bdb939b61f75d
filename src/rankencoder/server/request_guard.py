"""What every request passes first: log, API key, and limits on size and time."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import logging
import os
import time
import traceback
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rankencoder.server.http_errors import Refusal
from rankencoder.server.metrics import Metrics

LOG = logging.getLogger(__name__)
OPEN_PATHS = ("/health", "/docs", "/openapi.json")  # they need no key
_GONE = 499  # nginx's status for a client that left


class RequestGuard:
    """Logs and counts every request, checks the API key, and limits the size of the body and the time.

    The log never holds a sentence or a key. Unexpected errors are a plain 500 outside. The work for a client
    that has left is cancelled.

    :param paths: The paths that exist; others are logged and counted as one.
    :param max_body: Bytes of a body.
    :param timeout: Seconds for the body to arrive, and again for the answer.
    :param digest: The API key's SHA-256 digest, or None.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: Metrics,
        paths: Collection[str],
        max_body: int,
        timeout: float,
        digest: bytes | None,
    ) -> None:
        self.app, self.metrics, self.paths = app, metrics, frozenset((*paths, *OPEN_PATHS))
        self.max_body, self.timeout, self.digest = max_body, timeout, digest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and log how it ends."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            with self.metrics.in_flight.track_inprogress():
                refusal = await self._refusal(scope, receive, watched)
                if refusal is not None and not status:
                    await refusal.response()(scope, receive, watched)
        finally:
            seconds = time.perf_counter() - started
            path = scope["path"] if scope["path"] in self.paths else "other"  # that could hold anything
            self.metrics.requests.labels(path, str(status or _GONE)).inc()
            self.metrics.seconds.labels(path).observe(seconds)
            LOG.info(
                "%s %s %s %d %.0f ms", _client(scope), scope["method"], path, status or _GONE, 1e3 * seconds
            )

    async def _refusal(self, scope: Scope, receive: Receive, send: Send) -> Refusal | None:
        try:
            self._check_key(scope)
            body = await self._read_in_time(receive)
            if body is not None:
                await self._answer(scope, body, receive, send)
        except Refusal as refusal:
            return refusal
        except Exception as error:
            # not the message, which may hold a sentence
            LOG.error(
                "unexpected %s\n%s", type(error).__name__, "".join(traceback.format_tb(error.__traceback__))
            )
            if os.environ.get("RANKENCODER_DEBUG"):
                LOG.error("%s", error)
            return Refusal(500, "the server failed at this request; its log says where", code="internal")
        return None

    def _check_key(self, scope: Scope) -> None:
        if self.digest is None or scope["path"] in OPEN_PATHS:
            return
        scheme, _, key = Headers(scope=scope).get("authorization", "").partition(" ")
        digest = hashlib.sha256(key.strip().encode("latin-1")).digest()
        if not hmac.compare_digest(digest, self.digest) or scheme.lower() != "bearer":
            raise Refusal(
                401,
                "no API key, or a wrong one: send the header Authorization: Bearer KEY",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer", "Connection": "close"},
            )

    async def _read_in_time(self, receive: Receive) -> bytes | None:
        try:
            return await asyncio.wait_for(self._read(receive), self.timeout)
        except asyncio.TimeoutError:
            message = f"the body did not arrive within {self.timeout:g} s"
            raise Refusal(408, message, headers={"Connection": "close"}) from None

    async def _read(self, receive: Receive) -> bytes | None:
        """Return the body, counted as it arrives; None if the client left."""
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self.max_body:
                raise Refusal(
                    413,
                    f"the body is larger than {self.max_body:,} bytes: send fewer sentences at once",
                    code="body_too_large",
                )
        return bytes(body)

    async def _answer(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        unread = [body]

        async def replay() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            await asyncio.wait({gone})
            return {"type": "http.disconnect"}

        gone = asyncio.ensure_future(receive())  # nothing is left to receive but the end of the connection
        work = asyncio.ensure_future(self.app(scope, replay, send))
        try:
            done, _ = await asyncio.wait(
                {gone, work}, timeout=self.timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if work in done:
                work.result()
            if not done:
                raise Refusal(
                    503,
                    f"not done within {self.timeout:g} s: send fewer sentences at once, or try later",
                    code="timeout",
                    headers={"Retry-After": "5"},
                )
        finally:
            gone.cancel()
            work.cancel()
            await asyncio.gather(gone, work, return_exceptions=True)


def _client(scope: Scope) -> str:
    """Return the client's address; what a proxy forwards as one could hold anything."""
    try:
        return str(ipaddress.ip_address((scope.get("client") or ("",))[0]))
    except ValueError:
        return "-"
