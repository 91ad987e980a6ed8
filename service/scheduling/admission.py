"""Who may wait for an engine: what is over a bound, or would be late, is refused at once."""

import time

from model.errors import HeedfulError
from service.errors import DeadlinePassedError, HopelessDeadlineError, OverloadedError
from service.scheduling.forecast import Forecast, Work
from service.scheduling.tickets import Text
from service.scheduling.waiting import WaitingTexts

RETRY_SECONDS = (0.05, 10.0)


class Admission:
    """The bounds of one queue; used under the scheduler's lock only."""

    def __init__(
        self, waiting: WaitingTexts[Text], forecast: Forecast, max_queue_seconds: float
    ) -> None:
        self._waiting, self._forecast = waiting, forecast
        self._max_queue_seconds = max_queue_seconds

    def refusal(
        self,
        num_texts: int,
        least_tokens: int,
        work: Work,
        with_attention: bool,
        deadline: float,
    ) -> HeedfulError | None:
        """Why a request cannot be taken, or None.

        Args:
            least_tokens: of all its texts, as far as is certain: for the room they take.
            work: as far as can be told: for the time they take.
        """
        now = time.monotonic()
        waiting, wait = self._waiting, self._forecast.wait(now)
        retry = min(max(wait, RETRY_SECONDS[0]), RETRY_SECONDS[1])
        if deadline <= now:
            return DeadlinePassedError("waiting to be admitted")
        if full := waiting.lacks_room(num_texts, least_tokens):
            limit = waiting.max_texts if full == "texts" else waiting.max_tokens
            return OverloadedError(full, limit, retry)
        if waiting.num_texts and wait > self._max_queue_seconds:
            return OverloadedError("seconds of work", self._max_queue_seconds, retry)
        needed = self._forecast.until_answer(work, num_texts, with_attention, now)
        if needed is not None and now + needed > deadline:
            return HopelessDeadlineError(needed, deadline - now)
        return None
