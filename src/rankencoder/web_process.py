"""A web application as a process: its socket, its log and its end."""

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
    """Take a port, 0 for any free one; clients that connect wait until `run` answers."""
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
    """uvicorn that logs its address, and finishes requests at the end.

    :param grace: Seconds to wait at the end for requests in flight.
    """

    def __init__(self, app: Any, *, grace: float) -> None:
        config = uvicorn.Config(
            app,
            http="h11",  # it limits the size of headers
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            limit_concurrency=1000,  # requests on more connections are answered 503
            timeout_keep_alive=75,  # longer than a proxy reuses a connection (nginx: 60)
            timeout_graceful_shutdown=int(grace),
        )
        super().__init__(config)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """End at a signal, and at a second Ctrl-C at once, without uvicorn's raising it again afterwards."""
        self.force_exit |= self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and log the address."""
        await super().startup(sockets)
        if self.started and sockets:
            LOG.info("ready at %s (Ctrl-C to stop)", address(sockets[0]))


def run(app: Any, listener: socket.socket, *, grace: float) -> None:
    """Answer until SIGTERM or Ctrl-C, then finish the requests in flight; a second Ctrl-C does not wait."""
    WebServer(app, grace=grace).run(sockets=[listener])
    LOG.info("stopped")
