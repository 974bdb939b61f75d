"""A web application as a process: its socket, its limits, its log and its end."""

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
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)  # until then another process may bind it, too
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"cannot listen on {host}:{port}: {reason}; choose another `host` or `port`"
        ) from error
    return listener


def address(listener: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if listener.family == socket.AF_INET6 else f"http://{host}:{port}"


class WebServer(uvicorn.Server):
    """uvicorn with a limit on connections, and an end that finishes requests.

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
            server_header=False,
            proxy_headers=False,
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
            LOG.info("ready at %s (Ctrl-C ends it)", address(sockets[0]))


def run(app: Any, listener: socket.socket, *, grace: float) -> None:
    """Answer until SIGTERM or Ctrl-C, then finish the requests in flight; a second Ctrl-C does not wait."""
    WebServer(app, grace=grace).run(sockets=[listener])
    LOG.info("ended")
