"""What stands before the endpoints: the log, the key, the size of a body and the time a request may take."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import os
import time
import traceback
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rankencoder.server import LOG
from rankencoder.server.http_errors import Refusal
from rankencoder.server.metrics import Metrics

_PROXIES = ("127.0.0.1", "::1")
_GONE = 499  # nginx's number for a client that left
_DRAINED = 8  # how many times the limit is read and thrown away, so that the client gets to read its answer


class _Gone(Exception):
    """The client left."""


class Observer:
    """Logs and counts every request, never with a sentence or a key; what breaks is a plain 500 outside.

    :param app: What is observed.
    :param metrics: Where to count.
    :param paths: The paths that there are; others are logged and counted as one.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics, paths: Collection[str]) -> None:
        self.app, self.metrics, self.paths = app, metrics, frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and note how it ends."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self.metrics.started()
        try:
            refusal = await self._refusal(scope, receive, watched)
            if refusal is not None and not status:
                await refusal.response()(scope, receive, watched)
        finally:
            seconds = time.perf_counter() - started
            path = scope["path"] if scope["path"] in self.paths else "other"  # that could hold anything
            self.metrics.answered(path, status or _GONE, seconds)
            took = seconds * 1000
            LOG.info("%s %s %s %d %.0f ms", _client(scope), scope["method"], path, status or _GONE, took)

    async def _refusal(self, scope: Scope, receive: Receive, send: Send) -> Refusal | None:
        try:
            await self.app(scope, receive, send)
        except _Gone:
            return None
        except Refusal as refusal:
            return refusal
        except Exception as error:
            # not the message, which may hold a sentence
            where = "".join(traceback.format_tb(error.__traceback__))
            LOG.error("unexpected %s\n%s", type(error).__name__, where)
            if os.environ.get("RANKENCODER_DEBUG"):
                LOG.error("%s", error)
            return Refusal(500, "the server failed at this request; its log says where", code="internal")
        return None


class KeyGate:
    """Lets in who shows the key.

    :param app: What is behind the gate.
    :param digest: The key's SHA-256 digest.
    :param open_paths: Paths that need no key.
    """

    def __init__(self, app: ASGIApp, *, digest: bytes, open_paths: Collection[str]) -> None:
        self.app, self.digest, self.open_paths = app, digest, frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it before its body is read."""
        if scope["type"] == "http" and scope["path"] not in self.open_paths and not self._knows(scope):
            raise Refusal(
                401,
                "no API key, or a wrong one: send the header Authorization: Bearer KEY",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer", "Connection": "close"},
            )
        await self.app(scope, receive, send)

    def _knows(self, scope: Scope) -> bool:
        scheme, _, shown = _header(scope, b"authorization").partition(b" ")
        digest = hashlib.sha256(shown.strip()).digest()  # of equal length, whatever was shown
        return hmac.compare_digest(digest, self.digest) and scheme.lower() == b"bearer"


class Gate:
    """Takes in a body of limited size in limited time, and gives the answer as much time again.

    What is asked for by a client that has left is not worked on any more.

    :param app: What answers.
    :param max_body: Bytes.
    :param timeout: Seconds.
    """

    def __init__(self, app: ASGIApp, *, max_body: int, timeout: float) -> None:
        self.app, self.max_body, self.timeout = app, max_body, timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with its whole body."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            body = await asyncio.wait_for(self._read(receive), self.timeout)
        except asyncio.TimeoutError:
            raise Refusal(
                408, f"the body did not arrive within {self.timeout:g} s", headers={"Connection": "close"}
            ) from None
        await self._answer(scope, body, receive, send)

    async def _read(self, receive: Receive) -> bytes:
        """Return the body; count what arrives, whatever the Content-Length says."""
        body, size, more = bytearray(), 0, True
        while more and size <= _DRAINED * self.max_body:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Gone
            chunk, more = message.get("body", b""), message.get("more_body", False)
            size += len(chunk)
            if size <= self.max_body:
                body += chunk
            else:
                body.clear()
        if size > self.max_body:
            raise Refusal(
                413,
                f"the body is larger than {self.max_body:,} bytes: send fewer sentences at once",
                code="body_too_large",
                headers={"Connection": "close"} if more else None,
            )
        return bytes(body)

    async def _answer(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        unread, finished = [body], False

        async def replay() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            await asyncio.wait({gone})
            return {"type": "http.disconnect"}

        async def watched(message: Message) -> None:
            nonlocal finished
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                finished = True
            await send(message)

        gone = asyncio.ensure_future(_disconnect(receive))
        work = asyncio.ensure_future(_run(self.app, scope, replay, watched))
        try:
            await asyncio.wait({gone, work}, timeout=self.timeout, return_when=asyncio.FIRST_COMPLETED)
            if finished or work.done():
                await work  # an answered request looks like one whose client has left
            elif gone.done():
                raise _Gone
            else:
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


async def _run(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _client(scope: Scope) -> str:
    """Return whom to log: the connection's other end, or whom a proxy on this machine names."""
    peer = (scope.get("client") or ("",))[0]
    named = _header(scope, b"x-forwarded-for").decode("latin-1").rpartition(",")[2]
    return (_ip(named) if peer in _PROXIES else "") or _ip(peer) or "-"


def _ip(text: str) -> str:
    """Return an IP address, or nothing where the text is none: it could hold anything."""
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        return ""


def _header(scope: Scope, name: bytes) -> bytes:
    return next((bytes(value) for key, value in scope["headers"] if key == name), b"")
