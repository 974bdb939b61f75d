"""Prometheus metrics of a server."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector


class Metrics:
    """The metrics of one server, each by model."""

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
        self.tokens = Counter("rankencoder_tokens", "Tokens that the model read.", by, registry=registry)
        self.batch = Histogram(
            "rankencoder_batch_sentences",
            "Sentences encoded together.",
            by,
            buckets=[2**power for power in range(12)],
            registry=registry,
        )
        self.waiting = Gauge(
            "rankencoder_waiting_sentences",
            "Sentences that wait, or are encoded.",
            by,
            registry=registry,
        )
