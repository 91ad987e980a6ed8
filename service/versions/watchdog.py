"""Notices engines that hang, and answers that have become wrong, before callers do."""

import asyncio
import logging
import time
from collections.abc import Callable

from model.errors import BundleError
from service.backends.loading import check_golden_logits
from service.errors import (
    DeadlinePassedError,
    DrainingError,
    HopelessDeadlineError,
    OverloadedError,
)
from service.metrics import Metrics
from service.versions.models import Models, ServedModel

log = logging.getLogger(__name__)

# How long a canary may wait before it says nothing: a busy server is not a broken one.
CANARY_TIMEOUT = 10.0
STUCK, CANARY, DEVICE = "stuck", "canary", "device"
LOOK_SECONDS = 0.1
BUSY = (OverloadedError, HopelessDeadlineError, DeadlinePassedError, DrainingError)


class Watchdog:
    """Two checks of every model that answers, each run again and again until cancelled."""

    def __init__(
        self,
        models: Models,
        *,
        stuck_seconds: float,
        canary_seconds: float,
        metrics: Metrics,
        changed: Callable[[], None],
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        """Takes the models, and callbacks for when one has fallen ill or is well again, and for
        when a device is lost to this process.

        Args:
            stuck_seconds: a run that takes longer is stuck, and a model whose texts wait longer
                while no engine runs; 0 never looks.
            canary_seconds: between two runs of the known example; 0 never runs it.
        """
        self._models, self._metrics = models, metrics
        self._changed, self._lost = changed, lost
        self._stuck_seconds, self._canary_seconds = stuck_seconds, canary_seconds

    async def run(self) -> None:
        """Checks until it is cancelled."""
        async with asyncio.TaskGroup() as checks:
            checks.create_task(self._look_at_devices())
            if self._stuck_seconds:
                checks.create_task(self._look_at_runs())
            if self._canary_seconds:
                checks.create_task(self._send_canaries())

    async def _look_at_runs(self) -> None:
        while True:
            await asyncio.sleep(min(1.0, self._stuck_seconds / 4))
            for served in self._models:
                self._note(served, STUCK, self._what_is_stuck(served))

    def _what_is_stuck(self, served: ServedModel) -> str:
        bound, scheduler = self._stuck_seconds, served.scheduler
        if any(engine.running_seconds > bound for engine in served.engines):
            return f"a run takes over {bound:g} s"
        if scheduler.age_seconds > bound and not scheduler.num_running:
            return f"a text has waited over {bound:g} s, and no engine runs"
        return ""

    async def _look_at_devices(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for served in self._models:
                if served.scheduler.lost:
                    self._note(served, DEVICE, served.scheduler.lost)
                    self._lost()

    async def _send_canaries(self) -> None:
        while True:
            await asyncio.sleep(self._canary_seconds)
            for served in self._models:
                await self._send_canary(served)

    async def _send_canary(self, served: ServedModel) -> None:
        outcome, trouble = await sing(served)
        self._metrics.canary_runs.labels(served.name, outcome).inc()
        if outcome != "skipped":
            self._note(served, CANARY, trouble)

    def _note(self, served: ServedModel, check: str, trouble: str) -> None:
        """Changes what is known of a model, and tells whoever listens if that is news."""
        if served.troubles.get(check, "") == trouble:
            return
        if trouble:
            served.troubles[check] = trouble
            log.error("model %s, version %s, is ill: %s", served.name, served.version, trouble)
        else:
            del served.troubles[check]
            log.info("model %s, version %s: %s check passed", served.name, served.version, check)
        self._changed()


async def sing(served: ServedModel) -> tuple[str, str]:
    """Runs a model's known example among its callers' texts.

    Returns:
        "passed", "wrong", "failed" or, where a full or stopping server had no room for it,
        "skipped"; and what is wrong, empty if nothing is.
    """
    golden = served.bundle.manifest.golden
    deadline = time.monotonic() + CANARY_TIMEOUT
    try:
        outcome = await served.scheduler.classify([golden.input_ids], deadline=deadline)
        check_golden_logits(outcome.results[0].logits, served.backend, served.bundle)
    except BUSY:
        return "skipped", ""
    except BundleError as error:
        return "wrong", f"the canary's answer is wrong: {error}"
    except Exception as error:
        return "failed", f"the canary's run failed with {type(error).__name__}"
    return "passed", ""
