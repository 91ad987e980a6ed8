"""Brings texts to engines: admits or refuses, forms runs, and resolves who still waits.

Engines run in threads of their own. A thread forms its next run itself the moment it is free, so
that no engine waits for the event loop, and no run is formed before it can start. Futures and
tickets are touched in the event loop only, the queue under the lock only.
"""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from model.errors import HeedfulError
from service.attention import AttentionSelection
from service.backends import Backend
from service.errors import (
    DeadlinePassedError,
    DrainingError,
    HopelessDeadlineError,
    OverloadedError,
)
from service.forecast import CAUTION, Forecast, Work
from service.metrics import Metrics
from service.prediction import RunCost
from service.running import TextResult, run_texts
from service.tickets import Outcome, Text, Ticket, open_ticket, work_of
from service.waiting import WaitingTexts

log = logging.getLogger(__name__)

RETRY_SECONDS = (0.05, 10.0)


@dataclass(frozen=True, slots=True)
class _Run:
    """What an engine's thread reports: one result per text, None for a fault."""

    engine: int
    texts: list[Text]
    results: Sequence[TextResult | None]
    start: float
    end: float

    @property
    def good(self) -> bool:
        """Whether the engine answered at all, so that its time says something."""
        return any(result is not None for result in self.results)


class Scheduler:
    """The queue and its engines; build and use it inside one running event loop.

    Attributes:
        num_runs: engine runs that have ended.
    """

    def __init__(
        self,
        backends: Backend | Sequence[Backend],
        *,
        metrics: Metrics,
        max_queue_texts: int = 1024,
        max_queue_tokens: int = 65536,
        max_queue_seconds: float = 10.0,
        max_run_tokens: int = 256,
        max_wait: float = 0.0,
        pad_token_id: int = 0,
        cost: RunCost | None = None,
    ) -> None:
        """Starts one thread for each engine; an engine that is there twice is run by two at once.

        Args:
            max_queue_seconds: that what waits may take, as predicted.
            max_wait: seconds an idle engine waits for company of a text; a text is in the first
                run that starts after it is the oldest and has waited so long.
            cost: what runs cost, as far as it is known.
        """
        engines = backends if isinstance(backends, Sequence) else [backends]
        self._loop = asyncio.get_running_loop()
        self._metrics = metrics
        self._max_queue_seconds, self._max_wait = max_queue_seconds, max_wait
        self._max_run_tokens, self._pad_token_id = max_run_tokens, pad_token_id
        self._waiting: WaitingTexts[Text] = WaitingTexts(max_queue_texts, max_queue_tokens)
        self._lock = threading.Condition()
        self._open: set[Ticket] = set()
        self._closing = False
        self.num_runs = self._num_running = 0
        self._num_working = len(engines)
        self._forecast = Forecast(self._waiting, len(engines), max_run_tokens, cost or RunCost())
        self._all_ended = asyncio.Event()
        for number, engine in enumerate(engines):
            # Daemons: an engine that hangs must not keep the process from ending.
            name = f"engine-{number}"
            threading.Thread(
                target=self._work, args=(number, engine), name=name, daemon=True
            ).start()

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

    @property
    def predicted_seconds(self) -> float:
        """How long a text that came now would wait, as predicted."""
        with self._lock:
            return self._forecast.wait(time.monotonic())

    def check_door(self, num_texts: int, with_attention: bool, deadline: float) -> None:
        """Refuses what has no chance however short its texts are, before work is put into it.

        Raises:
            OverloadedError: there is no room.
            HopelessDeadlineError: the answer would come after the deadline.
        """
        with self._lock:
            refusal = self._refusal((num_texts, num_texts), num_texts, with_attention, deadline)
        if refusal is not None:
            self._refuse(refusal, "door")

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
            HopelessDeadlineError: the answer would come after the deadline; at once.
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
        work = work_of(ticket.texts)
        with self._lock:
            if self._closing:
                raise DrainingError
            refusal = self._refusal(work, len(encodings), attention is not None, ticket.deadline)
            if refusal is None:
                for text in ticket.texts:
                    self._waiting.add(text)
                self._lock.notify(len(encodings))
        if refusal is not None:
            self._refuse(refusal, "tokenized")
        self._open.add(ticket)
        return ticket

    def _refusal(
        self, work: Work, num_texts: int, with_attention: bool, deadline: float
    ) -> HeedfulError | None:
        """Why a request cannot be taken, or None."""
        now = time.monotonic()
        waiting, wait = self._waiting, self._forecast.wait(now)
        retry = min(max(wait, RETRY_SECONDS[0]), RETRY_SECONDS[1])
        if deadline <= now:
            return DeadlinePassedError("waiting to be admitted")
        if full := waiting.lacks_room(num_texts, work[0]):
            limit = waiting.max_texts if full == "texts" else waiting.max_tokens
            return OverloadedError(full, limit, retry)
        if waiting.num_texts and wait > self._max_queue_seconds:
            return OverloadedError("seconds of work", self._max_queue_seconds, retry)
        needed = self._forecast.until_answer(work, num_texts, with_attention, now)
        if needed is not None and now + needed > deadline:
            return HopelessDeadlineError(needed, deadline - now)
        return None

    def _refuse(self, refusal: HeedfulError, stage: str) -> NoReturn:
        if not isinstance(refusal, OverloadedError):
            self._metrics.departed.labels(stage).inc()
        raise refusal

    def _leave(self, ticket: Ticket) -> None:
        """Takes what is left of a request out of the queue, for whatever reason it ended."""
        with self._lock:
            for text in ticket.texts:
                if text in self._waiting:
                    self._waiting.remove(text)
        in_vain = zip(ticket.texts, ticket.results, strict=True)
        self._metrics.wasted_tokens.inc(sum(text.num_tokens for text, done in in_vain if done))
        if ticket.future.cancelled():
            self._metrics.departed.labels(ticket.stage).inc()
        elif ticket.future.done():
            ticket.future.exception()  # a caller that left just now will not look at it

    def _work(self, engine: int, backend: Backend) -> None:
        """An engine's thread: runs until the scheduler closes and nothing waits."""
        while texts := self._next_run(engine):
            self._report(self._run(engine, backend, texts))
            del texts  # and with them the callers' answers, while waiting
        self._post(self._ended)

    def _next_run(self, engine: int) -> list[Text]:
        """Waits for texts and takes those of one run; empty when there will be no more."""
        with self._lock:
            while True:
                now = time.monotonic()
                patience = self._patience(now)
                if patience > 0:
                    self._lock.wait(patience)
                    continue
                taken = self._waiting.take(self._affordable_tokens(now))
                if texts := self._worthwhile(taken, now):
                    for text in texts:
                        text.started = True
                    self._num_running += len(texts)
                    self._forecast.began(engine, work_of(texts), texts[0].with_attention, now)
                    return texts
                if not taken:
                    if self._closing:
                        return []
                    self._lock.wait()

    def _patience(self, now: float) -> float:
        """Seconds to go on waiting for company of the oldest text."""
        oldest = self._waiting.oldest() if self._max_wait else None
        if oldest is None or self._closing or self._waiting.num_tokens >= self._max_run_tokens:
            return 0.0
        run = self._forecast.seconds(work_of([oldest]), oldest.with_attention)
        latest = oldest.ticket.deadline - CAUTION * run
        return min(oldest.ticket.admitted + self._max_wait, latest) - now

    def _affordable_tokens(self, now: float) -> int:
        """Tokens of a run that ends before the oldest text's deadline, company included."""
        oldest = self._waiting.oldest()
        if oldest is None or oldest.ticket.deadline == math.inf:
            return self._max_run_tokens
        left = max(0.0, oldest.ticket.deadline - now)
        return self._forecast.affordable_tokens(work_of([oldest]), oldest.with_attention, left)

    def _worthwhile(self, taken: list[Text], now: float) -> list[Text]:
        """Those of the texts that somebody waits for and can be answered in time.

        An engine that has nothing better to do tries the others, and learns what they take.
        """
        texts: list[Text] = []
        hopeless: list[Text] = []
        for text in taken:
            left = text.ticket.deadline - now
            # A late caller's own timer tells it; here it is only not computed for.
            if left > 0 and not text.ticket.future.done():
                seconds = self._forecast.seconds(work_of([text]), text.with_attention)
                (texts if seconds <= left else hopeless).append(text)
        if not texts and not self._waiting.num_texts:
            return hopeless
        if hopeless:
            self._post(self._give_up, hopeless, now)
        return texts

    def _give_up(self, texts: list[Text], now: float) -> None:
        """Tells callers that they would be answered too late."""
        for text in texts:
            ticket = text.ticket
            if not ticket.future.done():
                needed = self._forecast.seconds(work_of([text]), text.with_attention)
                ticket.future.set_exception(HopelessDeadlineError(needed, ticket.deadline - now))
                self._metrics.departed.labels("queued").inc()

    def _run(self, engine: int, backend: Backend, texts: list[Text]) -> _Run:
        start = time.monotonic()
        input_ids = [text.input_ids for text in texts]
        asked = [text.ticket.attention for text in texts]
        selections = [selection for selection in asked if selection is not None] or None
        try:
            outcome = run_texts(backend, input_ids, selections, self._pad_token_id)
        except Exception:
            # Engines see numbers only, so their errors hold no text of users.
            log.exception("An engine failed on a run of %d texts", len(texts))
            return _Run(engine, texts, [None] * len(texts), start, time.monotonic())
        end = time.monotonic()
        num_tokens, num_slots = outcome.rows.num_tokens, outcome.rows.num_slots
        self._metrics.compute.observe(end - start)
        self._metrics.run_texts.observe(len(texts))
        self._metrics.run_tokens.observe(num_tokens)
        self._metrics.real_tokens.inc(num_tokens)
        self._metrics.padding_tokens.inc(num_slots - num_tokens)
        if None in outcome.results:
            log.error("An engine answered NaN or infinity for a text of a run of %d", len(texts))
        return _Run(engine, texts, outcome.results, start, end)

    def _report(self, run: _Run) -> None:
        with self._lock:
            self._num_running -= len(run.texts)
            self._forecast.ended(run.engine)
            if run.good:
                kind = run.texts[0].with_attention
                self._forecast.learn(work_of(run.texts), kind, run.end - run.start)
        self._post(self._settle, run)

    def _post(self, callback: Callable[..., None], *values: object) -> None:
        """Calls back in the event loop, unless it is closed and nobody waits any more."""
        try:
            self._loop.call_soon_threadsafe(callback, *values)
        except RuntimeError:
            log.debug("The event loop was closed before an engine's last run ended")

    def _settle(self, run: _Run) -> None:
        self.num_runs += 1
        for text, result in zip(run.texts, run.results, strict=True):
            if text.ticket.future.done():
                self._metrics.wasted_tokens.inc(text.num_tokens)
            text.ticket.receive(text, result, run.start, run.end)

    def _ended(self) -> None:
        self._num_working -= 1
        if not self._num_working:
            self._all_ended.set()
