"""Prometheus' figures of a server."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE

from rankencoder._version import __version__

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)


class Metrics:
    """What is counted; each server has its own.

    :param model: The served model's name.
    """

    content_type = CONTENT_TYPE

    def __init__(self, model: str) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._requests = Counter(
            "rankencoder_requests", "Requests answered.", ["path", "status"], registry=registry
        )
        self._seconds = Histogram(
            "rankencoder_request_seconds", "Time to answer a request.", ["path"], registry=registry
        )
        self._sentences = Counter("rankencoder_sentences", "Sentences encoded.", registry=registry)
        self._tokens = Counter("rankencoder_tokens", "Tokens that the model read.", registry=registry)
        self._batch = Histogram(
            "rankencoder_batch_sentences", "Sentences encoded together.", buckets=_SIZES, registry=registry
        )
        self._waiting = Gauge(
            "rankencoder_waiting_sentences", "Sentences that wait or are being encoded.", registry=registry
        )
        self._in_flight = Gauge(
            "rankencoder_requests_in_flight", "Requests not yet answered.", registry=registry
        )
        about = Gauge("rankencoder_info", "What is served.", ["model", "version"], registry=registry)
        about.labels(model, __version__).set(1)

    def started(self) -> None:
        """A request came in."""
        self._in_flight.inc()

    def answered(self, path: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._in_flight.dec()
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def read(self, tokens: int, *, alone: int = 0) -> None:
        """The model read tokens, of which some sentences were in no batch."""
        self._tokens.inc(tokens)
        self._sentences.inc(alone)

    def waiting(self, sentences: int) -> None:
        """So many sentences wait."""
        self._waiting.set(sentences)

    def encoded(self, sentences: int) -> None:
        """A batch was encoded."""
        self._sentences.inc(sentences)
        self._batch.observe(sentences)

    def render(self) -> bytes:
        """Return all figures as text."""
        return generate_latest(self.registry)
