"""A server as a process: its socket, its log, and its end."""

from __future__ import annotations

import logging
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any

import uvicorn

from rankencoder.errors import InputError

LOG = logging.getLogger("rankencoder.server")

GRACE = 30
"""Seconds more than a request may take that the server waits at its end for what is in flight."""


def bind(host: str, port: int) -> socket.socket:
    """Take a port, without answering on it yet.

    :param port: The port, or 0 for any that is free.
    :raises InputError: If it is taken, or the host is not this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
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
    :param timeout: Seconds that a request may take.
    :param max_connections: Connections at once; more are answered 503.
    :param about: What to say after the address.
    :param streams: Whether pages hold connections open; its end then waits for the timeout alone.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        limit_concurrency=max_connections,
        timeout_keep_alive=30,  # longer than a usual pause between requests, shorter than a proxy's patience
        timeout_graceful_shutdown=int(timeout) + (0 if streams else GRACE),
    )
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
