"""Brings texts to engines: a queue, its engines' threads, and callers who still wait.

Engines run in threads of their own. A thread forms its next run itself the moment it is free, so
that no engine waits for the event loop, and no run is formed before it can start. Futures and
tickets are touched in the event loop only, the queue under the lock only.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from model.errors import HeedfulError
from service.backends import Backend
from service.errors import (
    DeadlinePassedError,
    DrainingError,
    EngineLostError,
)
from service.metrics import Metrics
from service.request.attention import AttentionSelection
from service.scheduling.admission import Admission
from service.scheduling.callers import Callers
from service.scheduling.fitting import Fitting
from service.scheduling.forecast import Forecast
from service.scheduling.forming import Forming
from service.scheduling.niceness import step_back
from service.scheduling.prediction import RunCost
from service.scheduling.runs import Run, run_timed
from service.scheduling.tickets import Outcome, Text, Ticket, open_ticket, work_of
from service.scheduling.waiting import WaitingTexts

log = logging.getLogger(__name__)


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
        self._pad_token_id = pad_token_id
        self._fitting = Fitting(metrics)
        self._waiting: WaitingTexts[Text] = WaitingTexts(max_queue_texts, max_queue_tokens)
        self._forecast = Forecast(self._waiting, len(engines), max_run_tokens, cost or RunCost())
        self._admission = Admission(self._waiting, self._forecast, max_queue_seconds)
        self._forming = Forming(
            self._waiting, self._forecast, max_run_tokens=max_run_tokens, max_wait=max_wait
        )
        self._lock = threading.Condition()
        self._callers = Callers(self._forecast, metrics)
        self._closing, self._broken = False, ""
        self.num_runs = self._num_running = 0
        self._num_working = len(engines)
        self._all_ended = asyncio.Event()
        for number, engine in enumerate(engines):
            # Daemons: an engine that hangs must not keep the process from ending.
            name = f"engine-{number}"
            threading.Thread(
                target=self._work, args=(number, engine), name=name, daemon=True
            ).start()

    @property
    def lost(self) -> str:
        """What the engines' device or a thread of theirs died of; empty while they live."""
        return self._fitting.lost or self._broken

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

    def check_door(self, lengths: Sequence[int], with_attention: bool, deadline: float) -> None:
        """Refuses what has no chance, before work is put into it.

        Args:
            lengths: tokens that the texts will have, as far as can be guessed.

        Raises:
            OverloadedError: there is no room.
            HopelessDeadlineError: the answer would come after the deadline.
        """
        refusal = self.door_refusal(lengths, with_attention, deadline)
        if refusal is not None:
            self._refuse(refusal, "door")

    def door_refusal(
        self, lengths: Sequence[int], with_attention: bool, deadline: float
    ) -> HeedfulError | None:
        """What check_door would raise; it refuses nobody and counts nothing."""
        num_texts, work = len(lengths), (sum(lengths), sum(length**2 for length in lengths))
        with self._lock:
            return self._admission.refusal(num_texts, num_texts, work, with_attention, deadline)

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
            EngineLostError: an engine's thread has ended.
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
            if ticket.missing:
                self._leave(ticket)
            self._callers.went(ticket)
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
        self._callers.dismiss(DrainingError())
        return self._all_ended.is_set()

    def _admit(
        self,
        encodings: Sequence[Sequence[int]],
        attention: AttentionSelection | None,
        deadline: float | None,
    ) -> Ticket:
        if self._broken:
            raise EngineLostError
        ticket = open_ticket(self._loop.create_future(), encodings, attention, deadline)
        work = work_of(ticket.texts)
        with self._lock:
            if self._closing:
                raise DrainingError
            refusal = self._admission.refusal(
                len(encodings), work[0], work, attention is not None, ticket.deadline
            )
            if refusal is None:
                for text in ticket.texts:
                    self._waiting.add(text)
                self._lock.notify(len(encodings))
        if refusal is not None:
            self._refuse(refusal, "tokenized")
        self._callers.came(ticket)
        return ticket

    def _refuse(self, refusal: HeedfulError, stage: str) -> NoReturn:
        self._callers.refused(refusal, stage)
        raise refusal

    def _leave(self, ticket: Ticket) -> None:
        """Takes what is left of a request out of the queue, for whatever reason it ended."""
        with self._lock:
            for text in ticket.texts:
                if text in self._waiting:
                    self._waiting.remove(text)

    def _work(self, engine: int, backend: Backend) -> None:
        """An engine's thread: runs until the scheduler closes and nothing waits."""
        step_back()
        try:
            while texts := self._next_run(engine):
                pad, metrics = self._pad_token_id, self._metrics
                self._report(run_timed(engine, backend, texts, pad, metrics, self._fitting))
                del texts  # and with them the callers' answers, while waiting
        except BaseException as error:
            # Whatever it is, even an exit: callers would wait for this thread for ever.
            log.critical("The thread of engine %d has ended", engine, exc_info=True)
            self._post(self._break, f"an engine's thread ended with {type(error).__name__}")
        self._post(self._ended)

    def _next_run(self, engine: int) -> list[Text]:
        """Waits for texts and takes those of one run; empty when there will be no more."""
        with self._lock:
            while True:
                now = time.monotonic()
                patience = 0.0 if self._closing else self._forming.patience(now)
                if patience > 0:
                    self._lock.wait(patience)
                    continue
                formed = self._forming.take(now)
                if formed.hopeless:
                    self._post(self._callers.give_up, formed.hopeless, now)
                if formed.texts:
                    self._begin(engine, formed.texts, now)
                    return formed.texts
                if not formed.found_any:
                    if self._closing:
                        return []
                    self._lock.wait()

    def _begin(self, engine: int, texts: list[Text], now: float) -> None:
        for text in texts:
            text.started = True
        self._num_running += len(texts)
        self._forecast.began(engine, work_of(texts), texts[0].with_attention, now)

    def _report(self, run: Run) -> None:
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

    def _settle(self, run: Run) -> None:
        self.num_runs += 1
        self._callers.tell(run)

    def _break(self, why: str) -> None:
        """Tells all callers, since nobody knows which of them the thread has taken with it."""
        self._broken = why
        self._callers.dismiss(EngineLostError())

    def _ended(self) -> None:
        self._num_working -= 1
        if not self._num_working:
            self._all_ended.set()
