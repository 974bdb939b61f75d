"""Run a web application: its socket, its log and its shutdown."""

from __future__ import annotations

import logging
import signal
import socket
from typing import Any

import uvicorn

from rankencoder.errors import InputError

LOG = logging.getLogger(__name__)
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def bind(host: str, port: int) -> socket.socket:
    """Listen on a port, 0 for any free one; clients wait until `run` answers."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise InputError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another `host` or `port`"
        ) from error


def address(listener: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if listener.family == socket.AF_INET6 else f"http://{host}:{port}"


class WebServer(uvicorn.Server):
    """A uvicorn server that logs its address and shuts down gracefully.

    :param grace: Seconds to wait for requests in flight at shutdown.
    """

    def __init__(self, app: Any, *, grace: float) -> None:
        config = uvicorn.Config(
            app,
            http="h11",  # limits the size of headers
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            limit_concurrency=1000,  # more concurrent requests get a 503
            timeout_keep_alive=75,  # longer than a proxy reuses a connection (nginx: 60)
            timeout_graceful_shutdown=int(grace),
        )
        super().__init__(config)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Shut down at a signal, at once at a second Ctrl-C; unlike uvicorn, do not raise it again."""
        self.force_exit |= self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and log the address."""
        await super().startup(sockets)
        if self.started and sockets:
            LOG.info("ready at %s (Ctrl-C to stop)", address(sockets[0]))


def run(app: Any, listener: socket.socket, *, grace: float) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish requests in flight; a second Ctrl-C stops at once."""
    WebServer(app, grace=grace).run(sockets=[listener])
    LOG.info("stopped")
