"""A server as a process: its socket, its log, and its end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from rankencoder.errors import InputError
from rankencoder.server import LOG

GRACE = 30
"""Seconds more than a request may take that the server waits at its end for what is in flight."""


def bind(host: str, port: int) -> socket.socket:
    """Take a port; who connects waits until `run` answers.

    :param port: The port, or 0 for any that is free.
    :raises InputError: If it is taken, or the host is not this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()  # until then another process may bind it, too
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"cannot listen on {host}:{port}: {reason}; choose another --host or --port"
        ) from error
    return listener


def address(listener: socket.socket) -> str:
    """Return the address that a browser would be given."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if listener.family == socket.AF_INET6 else f"http://{host}:{port}"


def heads_within(seconds: float) -> type[H11Protocol]:
    """Return uvicorn's protocol, which hangs up on who begins no request, or not all of its headers, in time.

    uvicorn itself only limits the pause after an answer.
    """

    class Protocol(H11Protocol):
        _clock: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._stop()

        def _watch(self) -> None:
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop()  # a request is being answered
            elif self._clock is None:
                self._clock = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

        def _stop(self) -> None:
            if self._clock is not None:
                self._clock.cancel()
                self._clock = None

    return Protocol


class _Server(uvicorn.Server):
    """Says when it answers, and what about.

    :param streams: Whether pages hold connections open, which are cut at its end.
    """

    def __init__(self, config: uvicorn.Config, *, about: str, streams: bool) -> None:
        super().__init__(config)
        self.about, self.streams = about, streams

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            LOG.info("ready at %s%s; Ctrl-C ends it", address(sockets[0]), self.about)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self.streams:
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it would call each cut an error
        await super().shutdown(sockets)


def configure(app: Any, *, timeout: float, max_connections: int, streams: bool) -> uvicorn.Config:
    """Return how uvicorn is to run an application (see `run`)."""
    return uvicorn.Config(
        app,
        http=heads_within(GRACE if streams else timeout),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # uvicorn takes anything for an address; the log reads them itself
        ws="none",
        lifespan="on",
        limit_concurrency=max_connections,
        timeout_keep_alive=75,  # longer than a proxy keeps it (nginx: 60), which else may use a closed one
        timeout_graceful_shutdown=int(timeout) + (0 if streams else GRACE),
    )


def run(
    app: Any,
    listener: socket.socket,
    *,
    timeout: float,
    max_connections: int = 1000,
    about: str = " (description at /docs)",
    streams: bool = False,
) -> None:
    """Answer until SIGTERM or Ctrl-C, then finish what is in flight; a second Ctrl-C does not wait.

    :param app: The ASGI application.
    :param listener: What `bind` returned.
    :param timeout: Seconds that a request may take, and that its headers may take to arrive.
    :param max_connections: Connections at once; more are answered 503.
    :param about: What to say after the address.
    :param streams: Whether pages hold connections open; its end then waits for the timeout alone.
    """
    config = configure(app, timeout=timeout, max_connections=max_connections, streams=streams)
    server = _Server(config, about=about, streams=streams)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _ended)  # uvicorn raises them once more when all is done
    server.run(sockets=[listener])
    LOG.info("ended")


def _ended(*_: Any) -> None:
    """An end that was asked for is no error."""


def log_to_stderr(loggers: Sequence[str] = ("rankencoder.server", "uvicorn.error")) -> None:
    """Write the server's log to the error output, one line per request."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for name in loggers:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if name.startswith("rankencoder") else logging.WARNING)
