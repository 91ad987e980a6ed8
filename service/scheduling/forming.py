"""Which of the waiting texts run next, and how long an idle engine waits for more of them."""

import math
from dataclasses import dataclass, field

from service.scheduling.forecast import CAUTION, Forecast
from service.scheduling.tickets import Text, work_of
from service.scheduling.waiting import WaitingTexts


@dataclass(slots=True)
class Formed:
    """What was taken out of the queue.

    Attributes:
        texts: those of the run; empty if none is worth one.
        hopeless: those whose callers are to be told that they would be answered too late.
        found_any: whether there was anything to take.
    """

    texts: list[Text] = field(default_factory=list)
    hopeless: list[Text] = field(default_factory=list)
    found_any: bool = False


class Forming:
    """Forms the runs of one queue; used under the scheduler's lock only.

    The oldest text is in the next run, and waits for company for at most max_wait seconds from
    its admission.
    """

    def __init__(
        self,
        waiting: WaitingTexts[Text],
        forecast: Forecast,
        *,
        max_run_tokens: int,
        max_wait: float,
    ) -> None:
        self._waiting, self._forecast = waiting, forecast
        self._max_run_tokens, self._max_wait = max_run_tokens, max_wait

    def patience(self, now: float) -> float:
        """Seconds to go on waiting for company of the oldest text."""
        oldest = self._waiting.oldest() if self._max_wait else None
        if oldest is None or self._waiting.num_tokens >= self._max_run_tokens:
            return 0.0
        run = self._forecast.seconds(work_of([oldest]), oldest.with_attention)
        latest = oldest.ticket.deadline - CAUTION * run
        return min(oldest.ticket.admitted + self._max_wait, latest) - now

    def take(self, now: float) -> Formed:
        """Takes the texts of one run, and those with them that it is too late for."""
        taken = self._waiting.take(self._affordable_tokens(now))
        formed = Formed(found_any=bool(taken))
        for text in taken:
            left = text.ticket.deadline - now
            # A late caller's own timer tells it; here it is only not computed for.
            if left > 0 and not text.ticket.future.done():
                seconds = self._forecast.seconds(work_of([text]), text.with_attention)
                (formed.texts if seconds <= left else formed.hopeless).append(text)
        if not formed.texts and not self._waiting.num_texts:
            # An engine that has nothing better to do tries them, and learns what they take.
            formed.texts, formed.hopeless = formed.hopeless, []
        return formed

    def _affordable_tokens(self, now: float) -> int:
        """Tokens of a run that ends before the oldest text's deadline, company included."""
        oldest = self._waiting.oldest()
        if oldest is None or oldest.ticket.deadline == math.inf:
            return self._max_run_tokens
        left = max(0.0, oldest.ticket.deadline - now)
        return self._forecast.affordable_tokens(work_of([oldest]), oldest.with_attention, left)
