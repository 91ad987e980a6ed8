"""Lets versions that were taken out of service finish their calls, and gives their memory back."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress

from service.config import ServerConfig
from service.memory import settle
from service.metrics import Metrics
from service.versions.models import OUTCOMES, Models, ServedModel

log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.5


class Draining:
    """The versions on their way out; touched in the event loop only."""

    def __init__(self, config: ServerConfig, models: Models, metrics: Metrics) -> None:
        """Takes the models that answer, since what counts for one of them must stay."""
        self._config, self._models, self._metrics = config, models, metrics
        self._leaving: list[ServedModel] = []
        self._drains: set[asyncio.Task[None]] = set()
        self._ending = False

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._leaving)

    def retire(self, served: ServedModel) -> asyncio.Task[None]:
        """Begins to drain a version that no new call reaches; the task ends when it is gone."""
        self._leaving.append(served)
        if served.described not in {other.described for other in self._models}:
            self._metrics.model_info.remove(*served.described)
        drain = asyncio.get_running_loop().create_task(self._drain(served))
        self._drains.add(drain)
        drain.add_done_callback(self._drained_one)
        return drain

    def _drained_one(self, drain: asyncio.Task[None]) -> None:
        self._drains.discard(drain)
        # A little later, since the engine's thread lets go of it as it ends.
        drain.get_loop().call_later(SETTLE_SECONDS, self._settle)

    def _settle(self) -> None:
        if not self._ending:
            asyncio.get_running_loop().run_in_executor(None, settle)

    async def _drain(self, served: ServedModel) -> None:
        """Lets a version's calls end, then its engine; with it goes its memory."""
        config = self._config
        try:
            await served.forget_answers()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(config.default_timeout, config.grace)):
                    await served.idle()
            await served.scheduler.close(config.grace)
        finally:
            self._leaving.remove(served)
            self._forget_calls(served)
        log.info("unloaded model %s, version %s", served.name, served.version)

    def _forget_calls(self, served: ServedModel) -> None:
        """Ends the counters of a version that is gone, or they would add up over the years."""
        others = [*self._models, *self._leaving]
        if served.name not in {other.name for other in others}:
            self._metrics.model_seconds.remove(served.name)
        if (served.name, served.version) not in {(other.name, other.version) for other in others}:
            for outcome in OUTCOMES:
                self._metrics.model_calls.remove(served.name, served.version, outcome)

    async def finished(self) -> None:
        """Waits until what is leaving has left."""
        await asyncio.gather(*self._drains)

    def give_up(self) -> None:
        """Waits for calls no longer; whoever asks for this closes the engines."""
        self._ending = True
        for drain in self._drains:
            drain.cancel()
