"""Asks the engines for what the answer cache does not have."""

from collections.abc import Sequence
from dataclasses import replace

from service.metrics import Metrics
from service.request.attention import AttentionSelection
from service.request.cache import AnswerShelf, key_of
from service.scheduler import Scheduler
from service.scheduling.running import TextResult
from service.scheduling.tickets import Outcome


class Asking:
    """The last step of a question, with or without a cache before the queue.

    Attributes:
        has_cache: whether an answer may be there that takes no engine.
    """

    def __init__(self, scheduler: Scheduler, shelf: AnswerShelf | None, metrics: Metrics) -> None:
        self._scheduler, self._shelf, self._metrics = scheduler, shelf, metrics
        self.has_cache = shelf is not None

    def kept(self, encodings: Sequence[Sequence[int]]) -> Outcome | None:
        """What the cache has of texts without attention, if it has all of them."""
        if self._shelf is None:
            return None
        found = [self._shelf.get(key_of(input_ids)) for input_ids in encodings]
        results = [TextResult(logits, cached=True) for logits in found if logits is not None]
        if len(results) < len(found):
            return None
        self._metrics.cache_hits.inc(len(results))
        return Outcome(results, 0.0, 0.0)

    async def classify(
        self,
        encodings: Sequence[Sequence[int]],
        *,
        attention: AttentionSelection | None,
        deadline: float,
    ) -> Outcome:
        """As Scheduler.classify; texts without attention are looked for in the cache first.

        If all are found, the request waits for nobody and costs no engine anything.
        """
        shelf = self._shelf
        if shelf is None or attention is not None:
            return await self._scheduler.classify(encodings, attention=attention, deadline=deadline)
        keys = [key_of(input_ids) for input_ids in encodings]
        kept = [shelf.get(key) for key in keys]
        missing = [place for place, logits in enumerate(kept) if logits is None]
        self._metrics.cache_hits.inc(len(keys) - len(missing))
        self._metrics.cache_misses.inc(len(missing))
        computed = Outcome([], 0.0, 0.0)
        if missing:
            lacking = [encodings[place] for place in missing]
            computed = await self._scheduler.classify(lacking, deadline=deadline)
        # An answer that is not finite is an error, and none of its request comes this far.
        for place, result in zip(missing, computed.results, strict=True):
            shelf.put(keys[place], result.logits)
        fresh = iter(computed.results)
        results = [
            next(fresh) if logits is None else TextResult(logits, cached=True) for logits in kept
        ]
        return replace(computed, results=results)
