"""What Prometheus can see. Labels come from fixed lists, never from a request."""

from collections.abc import Callable
from typing import Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)

# 100 microseconds to 30 seconds: a small model on a fast machine and a queue near its end.
SECONDS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0),
)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
TOKENS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


class Queue(Protocol):
    """What can be read of the scheduler at any time, from any thread."""

    @property
    def num_texts(self) -> int: ...

    @property
    def num_tokens(self) -> int: ...

    @property
    def age_seconds(self) -> float: ...

    @property
    def predicted_seconds(self) -> float: ...

    @property
    def num_running(self) -> int: ...


class Metrics:
    """All metrics of one server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)

        def seconds(name: str, what: str, *labels: str) -> Histogram:
            return Histogram(
                f"heedful_{name}_seconds", what, labels, registry=registry, buckets=SECONDS
            )

        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"heedful_{name}", what, labels, registry=registry)

        self.requests = counter("requests", "Requests answered or refused.", "method", "code")
        self.refusals = counter("refusals", "Requests refused, by the reason given.", "reason")
        self.departed = counter("departed", "Requests given up, by how far they were.", "stage")
        self.wasted_tokens = counter("wasted_tokens", "Tokens computed for callers that had left.")
        self.file_reloads = counter(
            "file_reloads", "Files that changed while running, taken or refused.", "file", "outcome"
        )
        self.request = seconds("request", "From a request's bytes to its answer's.", "method")
        self.tokenize = seconds("tokenize", "Text to token ids, per request.")
        self.queue = seconds("queue", "Waiting for an engine, per request.")
        self.compute = seconds("compute", "One engine run.")
        self.serialize = seconds("serialize", "Results to bytes, per request.")
        self.run_texts = Histogram(
            "heedful_run_texts", "Texts in one engine run.", registry=registry, buckets=TEXTS
        )
        self.run_tokens = Histogram(
            "heedful_run_tokens", "Real tokens in one run.", registry=registry, buckets=TOKENS
        )
        tokens = counter("tokens", "Tokens computed: of texts, or filling rows up.", "kind")
        self.real_tokens, self.padding_tokens = tokens.labels("real"), tokens.labels("padding")
        self.out_of_memory = counter(
            "out_of_memory", "Engine runs that did not fit into the device's memory."
        )
        self.cache_hits = counter("cache_hits", "Texts answered from the answer cache.")
        self.cache_misses = counter("cache_misses", "Texts looked for in it in vain.")
        self.model_loads = counter(
            "model_loads", "Versions loaded, or failed to load.", "model", "outcome"
        )
        self.model_calls = counter(
            "model_calls", "Calls answered or refused, by who did.", "model", "version", "outcome"
        )
        self.model_seconds = seconds(
            "model", "From a request to its results, by the model that answered.", "model"
        )
        self.canary_runs = counter(
            "canary_runs", "Runs of known examples, by how they went.", "model", "outcome"
        )
        self.model_ready = Gauge(
            "heedful_model_ready",
            "1 while this version answers as it should.",
            ["model", "version"],
            registry=registry,
        )
        self.ready = Gauge("heedful_ready", "1 while health is SERVING.", registry=registry)
        self.model_info = Gauge(
            "heedful_model_info",
            "The model that is served.",
            ["model", "version", "backend", "device", "precision"],
            registry=registry,
        )

    def watch_reserve(self, read: Callable[[], float]) -> None:
        """Reads how much attention is computed or unread whenever somebody scrapes."""
        what = "Bytes of attention that are computed, or written and not yet read."
        Gauge("heedful_unread_bytes", what, registry=self.registry).set_function(read)

    def watch_cache(self, read: Callable[[], float]) -> None:
        """Reads how much the answer cache holds whenever somebody scrapes."""
        what = "Bytes of answers that are kept to be given again."
        Gauge("heedful_cache_bytes", what, registry=self.registry).set_function(read)

    def watch(self, queue: Queue) -> None:
        """Reads the queue whenever somebody scrapes."""
        for name, what, read in (
            ("queue_texts", "Texts waiting for an engine.", lambda: queue.num_texts),
            ("queue_tokens", "Their tokens.", lambda: queue.num_tokens),
            ("queue_age_seconds", "How long the oldest has waited.", lambda: queue.age_seconds),
            (
                "queue_predicted_seconds",
                "How long a text that came now would wait, as predicted.",
                lambda: queue.predicted_seconds,
            ),
            ("running_texts", "Texts an engine is computing.", lambda: queue.num_running),
        ):
            gauge = Gauge(f"heedful_{name}", what, registry=self.registry)
            gauge.set_function(read)
