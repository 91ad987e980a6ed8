"""Says when a request would be answered: from what waits, what runs, and what runs have cost."""

from typing import Protocol

from service.scheduling.prediction import RunCost

# Tokens of some texts, and the sum of their squares.
Work = tuple[int, int]
# What a predicted wait is multiplied by before a deadline is measured against it: answers that
# come just too late cost as much as those in time, and help nobody. At three times the capacity
# one in ten came late with 1.15 and one or two in a hundred with 1.5; more came in time.
CAUTION = 1.5


class Queue(Protocol):
    """What must be known of the texts that wait."""

    @property
    def num_texts(self) -> int: ...

    def work(self, with_attention: bool) -> Work: ...


class Forecast:
    """Predictions for one queue and its engines; not safe to share between threads by itself."""

    def __init__(self, queue: Queue, num_engines: int, max_run_tokens: int, cost: RunCost) -> None:
        self._queue, self._num_engines = queue, num_engines
        self._max_run_tokens = max_run_tokens
        self._costs = {False: cost, True: RunCost()}
        self._ends: dict[int, float] = {}  # of the engines that run

    def seconds(self, work: Work, with_attention: bool) -> float:
        """Of engine time; attention counts as a plain run until one was timed."""
        return self._costs[with_attention].seconds(*work) or self._costs[False].seconds(*work)

    def began(self, engine: int, work: Work, with_attention: bool, now: float) -> None:
        self._ends[engine] = now + self.seconds(work, with_attention)

    def ended(self, engine: int) -> None:
        del self._ends[engine]

    def learn(self, work: Work, with_attention: bool, seconds: float) -> None:
        self._costs[with_attention].learn(*work, seconds)

    @property
    def idle(self) -> bool:
        """Whether a text that came now would be run at once."""
        return not self._queue.num_texts and len(self._ends) < self._num_engines

    def wait(self, now: float) -> float:
        """Seconds until the engines have done what they were given; 0 if one is idle."""
        if self.idle:
            return 0.0
        return self._wait_behind(self._queued(), now)

    def until_answer(
        self, work: Work, num_texts: int, with_attention: bool, now: float
    ) -> float | None:
        """Seconds until so many new texts would be answered; None if an engine is idle.

        An idle engine tries whatever the prediction: only so can it learn that it was wrong.
        """
        if self.idle:
            return None
        own = self.seconds(work, with_attention) / min(self._num_engines, num_texts)
        room = max(0, self._max_run_tokens - work[0])
        # Texts are answered when all of their run is; the other engines do not help there.
        queued = self._queued()
        company = min(queued, self._costs[False].seconds(room, 0))
        wait = self._wait_behind(queued, now)
        return CAUTION * wait + own + company * (1 - 1 / self._num_engines)

    def affordable_tokens(self, first: Work, with_attention: bool, seconds: float) -> int:
        """How long a run may be that begins with a text and must end within seconds."""
        per_token = self.seconds(first, with_attention) / first[0]
        if per_token * self._max_run_tokens <= seconds:
            return self._max_run_tokens
        return max(first[0], int(seconds / per_token))

    def _queued(self) -> float:
        """Seconds of one engine that what waits would take."""
        plain, curious = self._queue.work(False), self._queue.work(True)
        return self.seconds(plain, False) + (self.seconds(curious, True) if curious[0] else 0.0)

    def _wait_behind(self, queued: float, now: float) -> float:
        running = sum(max(0.0, end - now) for end in self._ends.values())
        return (queued + running) / self._num_engines
