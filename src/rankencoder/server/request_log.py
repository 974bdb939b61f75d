"""Request ids, access log and Prometheus metrics."""

from __future__ import annotations

import logging
import re
import time
import traceback
from collections.abc import Collection
from contextvars import ContextVar
from typing import Any
from uuid import uuid4

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from rankencoder.server.http_errors import ApiError, error_response

LOG = logging.getLogger(__name__)
_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)
LOG_FIELDS: ContextVar[dict[str, Any]] = ContextVar("LOG_FIELDS")
"""Log fields of the current request."""


class Metrics:
    """The metrics of one server, labeled by model."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        by, asked = ["model"], ["model", "path"]
        self.requests = Counter(
            "rankencoder_requests", "Requests answered.", [*asked, "status"], registry=registry
        )
        self.seconds = Histogram(
            "rankencoder_request_seconds", "Time to answer a request.", asked, registry=registry
        )
        self.sentences = Counter("rankencoder_sentences", "Sentences encoded.", by, registry=registry)
        self.tokens = Counter("rankencoder_tokens", "Tokens encoded.", by, registry=registry)
        self.batch = Histogram(
            "rankencoder_batch_sentences",
            "Sentences per batch.",
            by,
            buckets=[2**power for power in range(12)],
            registry=registry,
        )
        self.waiting = Gauge(
            "rankencoder_waiting_sentences",
            "Sentences queued or being encoded.",
            by,
            registry=registry,
        )


class RequestLog(BaseHTTPMiddleware):
    """Logs and counts every request, without sentences or keys. Unexpected errors become a plain 500.

    :param paths: The known paths; all others are logged and counted as "other".
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics, paths: Collection[str]) -> None:
        super().__init__(app)
        self.metrics, self.paths = metrics, paths

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        """Handle a request, and log the outcome."""
        started, given = time.perf_counter(), request.headers.get("x-request-id", "")
        about: dict[str, Any] = {"id": given if _ID.fullmatch(given) else uuid4().hex}
        LOG_FIELDS.set(about)
        try:
            response = await call_next(request)
        except Exception as error:
            trace = "".join(traceback.format_tb(error.__traceback__))
            LOG.error("unexpected %s\n%s", type(error).__name__, trace)  # its message may hold a sentence
            response = error_response(ApiError(500, "the server failed; see its log", code="internal"))
        response.headers["X-Request-ID"] = about["id"]
        seconds, path = time.perf_counter() - started, request.scope["path"]
        path = path if path in self.paths else "other"  # it may hold anything
        model, status = about.get("model", ""), response.status_code
        self.metrics.requests.labels(model, path, str(status)).inc()
        self.metrics.seconds.labels(model, path).observe(seconds)
        fields = {"client": (request.scope.get("client") or "-")[0], "method": request.method, "path": path}
        fields |= {"status": status, "ms": round(1e3 * seconds), "sentences": 0, **about}
        line = "{client} {method} {path} {status} {ms} ms, {sentences} sentences, {id}"
        LOG.info("%s", line.format(**fields), extra={"fields": fields})
        return response
