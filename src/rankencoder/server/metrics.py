"""Prometheus metrics of a server."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter(
            "rankencoder_requests", "Requests answered.", ["path", "status"], registry=registry
        )
        self.seconds = Histogram(
            "rankencoder_request_seconds", "Time to answer a request.", ["path"], registry=registry
        )
        self.sentences = Counter("rankencoder_sentences", "Sentences encoded.", registry=registry)
        self.tokens = Counter("rankencoder_tokens", "Tokens that the model read.", registry=registry)
        self.batch = Histogram(
            "rankencoder_batch_sentences",
            "Sentences encoded together.",
            buckets=[2**power for power in range(12)],
            registry=registry,
        )
        self.waiting = Gauge(
            "rankencoder_waiting_sentences", "Sentences that wait or are being encoded.", registry=registry
        )
