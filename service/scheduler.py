"""Brings texts to engines: admits or refuses, forms runs, and resolves who still waits.

Engines run in threads of their own. A thread forms its next run itself the moment it is free, so
that no engine waits for the event loop, and no run is formed before it can start. Futures and
tickets are touched in the event loop only, the queue under the lock only.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from service.attention import AttentionSelection
from service.backends import Backend
from service.errors import (
    DeadlinePassedError,
    DrainingError,
    OverloadedError,
)
from service.metrics import Metrics
from service.running import TextResult, run_texts
from service.tickets import Outcome, Text, Ticket, open_ticket
from service.waiting import WaitingTexts

log = logging.getLogger(__name__)

# How much the newest run counts in the learned seconds per token.
LEARNING_RATE = 0.1
RETRY_SECONDS = (0.05, 10.0)


@dataclass(frozen=True, slots=True)
class _Run:
    """What an engine's thread reports: one result per text, None for a fault."""

    texts: list[Text]
    results: Sequence[TextResult | None]
    start: float
    end: float


class Scheduler:
    """The queue and its engines; build and use it inside one running event loop."""

    def __init__(
        self,
        backends: Backend | Sequence[Backend],
        *,
        metrics: Metrics,
        max_queue_texts: int = 1024,
        max_queue_tokens: int = 65536,
        max_run_tokens: int = 256,
        pad_token_id: int = 0,
    ) -> None:
        engines = backends if isinstance(backends, Sequence) else [backends]
        self._loop = asyncio.get_running_loop()
        self._metrics = metrics
        self._max_run_tokens, self._pad_token_id = max_run_tokens, pad_token_id
        self._waiting: WaitingTexts[Text] = WaitingTexts(max_queue_texts, max_queue_tokens)
        self._lock = threading.Condition()
        self._open: set[Ticket] = set()
        self._closing = False
        self._num_running = 0
        self._seconds_per_token = 1e-3
        self._num_engines = self._num_working = len(engines)
        self._all_ended = asyncio.Event()
        for number, engine in enumerate(engines):
            # Daemons: an engine that hangs must not keep the process from ending.
            name = f"engine-{number}"
            threading.Thread(target=self._work, args=(engine,), name=name, daemon=True).start()

    @property
    def num_texts(self) -> int:
        """Texts waiting for an engine."""
        return self._waiting.num_texts

    @property
    def num_tokens(self) -> int:
        """Tokens of the texts waiting."""
        return self._waiting.num_tokens

    @property
    def num_running(self) -> int:
        """Texts an engine is computing."""
        return self._num_running

    @property
    def age_seconds(self) -> float:
        """How long the oldest waiting text has waited; 0 if none waits."""
        with self._lock:
            oldest = self._waiting.oldest()
        return time.monotonic() - oldest.ticket.admitted if oldest else 0.0

    async def classify(
        self,
        encodings: Sequence[Sequence[int]],
        *,
        attention: AttentionSelection | None = None,
        deadline: float | None = None,
    ) -> Outcome:
        """Runs the token ids of one request's texts; all are answered or none is.

        Args:
            encodings: at least one text, at least one token each.
            deadline: in time.monotonic(), the clock of asyncio's loops; None waits for ever.

        Raises:
            OverloadedError: there is no room; at once.
            DrainingError: the scheduler is closing.
            DeadlinePassedError: the deadline passed.
            InternalFaultError: the engine failed on this request.
        """
        ticket = self._admit(encodings, attention, deadline)
        try:
            async with asyncio.timeout_at(deadline):
                await ticket.future
        except TimeoutError:
            raise DeadlinePassedError(ticket.stage) from None
        finally:
            self._open.discard(ticket)
            if ticket.missing:
                self._leave(ticket)
        outcome = ticket.outcome()
        self._metrics.queue.observe(outcome.queue_seconds)
        return outcome

    async def close(self, timeout: float) -> bool:
        """Refuses new work and finishes what was accepted, for at most timeout seconds.

        Returns:
            False if an engine did not come back in time; its callers were told DrainingError.
        """
        with self._lock:
            self._closing = True
            self._lock.notify_all()
        try:
            async with asyncio.timeout(timeout):
                await self._all_ended.wait()
        except TimeoutError:
            log.error("An engine is still running after %.1f s; giving it up", timeout)
        for ticket in self._open:
            if not ticket.future.done():
                ticket.future.set_exception(DrainingError())
        return self._all_ended.is_set()

    def _admit(
        self,
        encodings: Sequence[Sequence[int]],
        attention: AttentionSelection | None,
        deadline: float | None,
    ) -> Ticket:
        ticket = open_ticket(self._loop.create_future(), encodings, attention, deadline)
        num_tokens = sum(text.num_tokens for text in ticket.texts)
        with self._lock:
            if self._closing:
                raise DrainingError
            full = self._waiting.lacks_room(len(encodings), num_tokens)
            if full is None:
                for text in ticket.texts:
                    self._waiting.add(text)
                self._lock.notify(len(encodings))
        if full is not None:
            raise self._overloaded(full)
        self._open.add(ticket)
        return ticket

    def _overloaded(self, full: str) -> OverloadedError:
        limit = self._waiting.max_texts if full == "texts" else self._waiting.max_tokens
        shortest, longest = RETRY_SECONDS
        predicted = self._waiting.num_tokens * self._seconds_per_token / self._num_engines
        return OverloadedError(full, limit, min(max(predicted, shortest), longest))

    def _leave(self, ticket: Ticket) -> None:
        """Takes what is left of a request out of the queue, for whatever reason it ended."""
        with self._lock:
            for text in ticket.texts:
                if text in self._waiting:
                    self._waiting.remove(text)
        if ticket.future.cancelled():
            self._metrics.departed.labels(ticket.stage).inc()
        elif ticket.future.done():
            ticket.future.exception()  # a caller that left just now will not look at it

    def _work(self, backend: Backend) -> None:
        """An engine's thread: runs until the scheduler closes and nothing waits."""
        while texts := self._next_run():
            self._report(self._run(backend, texts))
            del texts  # and with them the callers' answers, while waiting
        self._post(self._ended)

    def _next_run(self) -> list[Text]:
        """Waits for texts and takes those of one run; empty when there will be no more."""
        with self._lock:
            while True:
                now = time.monotonic()
                taken = self._waiting.take(self._max_run_tokens)
                # A late caller's own timer tells it; here it is only not computed for.
                texts = [text for text in taken if text.ticket.deadline > now]
                if texts:
                    for text in texts:
                        text.started = True
                    self._num_running += len(texts)
                    return texts
                if not taken:
                    if self._closing:
                        return []
                    self._lock.wait()

    def _run(self, backend: Backend, texts: list[Text]) -> _Run:
        start = time.monotonic()
        input_ids = [text.input_ids for text in texts]
        asked = [text.ticket.attention for text in texts]
        selections = [selection for selection in asked if selection is not None] or None
        try:
            outcome = run_texts(backend, input_ids, selections, self._pad_token_id)
        except Exception:
            # Engines see numbers only, so their errors hold no text of users.
            log.exception("An engine failed on a run of %d texts", len(texts))
            return _Run(texts, [None] * len(texts), start, time.monotonic())
        end = time.monotonic()
        num_tokens, num_slots = outcome.rows.num_tokens, outcome.rows.num_slots
        self._metrics.compute.observe(end - start)
        self._metrics.run_texts.observe(len(texts))
        self._metrics.run_tokens.observe(num_tokens)
        self._metrics.real_tokens.inc(num_tokens)
        self._metrics.padding_tokens.inc(num_slots - num_tokens)
        if None in outcome.results:
            log.error("An engine answered NaN or infinity for a text of a run of %d", len(texts))
        return _Run(texts, outcome.results, start, end)

    def _report(self, run: _Run) -> None:
        with self._lock:
            self._num_running -= len(run.texts)
        self._post(self._settle, run)

    def _post(self, callback: Callable[..., None], *values: object) -> None:
        """Calls back in the event loop, unless it is closed and nobody waits any more."""
        try:
            self._loop.call_soon_threadsafe(callback, *values)
        except RuntimeError:
            log.debug("The event loop was closed before an engine's last run ended")

    def _settle(self, run: _Run) -> None:
        num_tokens = sum(text.num_tokens for text in run.texts)
        newest = (run.end - run.start) / num_tokens
        self._seconds_per_token += LEARNING_RATE * (newest - self._seconds_per_token)
        for text, result in zip(run.texts, run.results, strict=True):
            text.ticket.receive(text, result, run.start, run.end)

    def _ended(self) -> None:
        self._num_working -= 1
        if not self._num_working:
            self._all_ended.set()
