"""What waits for each model, read when somebody scrapes; a model that is gone leaves nothing."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from service.metrics import Queue


class Version(Protocol):
    """What we need of a version that is served."""

    @property
    def name(self) -> str: ...

    @property
    def scheduler(self) -> Queue: ...


# Name, what it is, one version's part, and what the parts of a model's versions come to.
GAUGES: tuple[
    tuple[str, str, Callable[[Queue], float], Callable[[Iterable[float]], float]], ...
] = (
    ("queue_texts", "Texts waiting for this model.", lambda queue: queue.num_texts, sum),
    (
        "queue_age_seconds",
        "How long the oldest of them has waited.",
        lambda queue: queue.age_seconds,
        max,
    ),
    (
        "queue_predicted_seconds",
        "How long a text that came now would wait, as predicted.",
        lambda queue: queue.predicted_seconds,
        max,
    ),
)


class ModelQueues(Collector):
    """Gauges with the label model, from the versions that are served at the moment of a scrape."""

    def __init__(self, versions: Iterable[Version]) -> None:
        """Takes what can be iterated again and again, from any thread."""
        self._versions = versions

    def collect(self) -> Iterator[GaugeMetricFamily]:
        queues: dict[str, list[Queue]] = {}
        for version in self._versions:
            queues.setdefault(version.name, []).append(version.scheduler)
        for name, what, read, over in GAUGES:
            family = GaugeMetricFamily(f"heedful_model_{name}", what, labels=["model"])
            for model, parts in queues.items():
                family.add_metric([model], over(map(read, parts)))
            yield family
