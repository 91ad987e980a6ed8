"""The bound on waiting, with a made-up clock: whatever comes and goes, the oldest is next."""

import asyncio
import math
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from service.scheduling.forecast import Forecast
from service.scheduling.forming import Forming
from service.scheduling.tickets import Text, open_ticket
from service.scheduling.waiting import WaitingTexts
from tests.service.scheduling.test_deadlines import slow

# Rounding of sums of times.
NOTHING = 1e-6

ARRIVALS = st.tuples(
    st.just("arrives"),
    st.integers(1, 80),  # tokens
    st.booleans(),  # attention
    st.sampled_from([math.inf, 0.5, 5.0, 50.0]),  # seconds to its deadline
)
EVENTS = st.lists(
    st.tuples(
        st.floats(0, 20),  # seconds since the one before
        st.one_of(ARRIVALS, ARRIVALS, st.tuples(st.just("leaves"), st.integers(0, 1000))),
    ),
    max_size=40,
)


@dataclass
class Engine:
    """An engine as the scheduler's threads are: it wakes, and then it waits, or runs."""

    waiting: WaitingTexts[Text]
    forming: Forming
    max_wait: float
    run_seconds: float
    now: float = 0.0
    wakes: float = math.inf
    free_since: float = 0.0

    def go_on(self, until: float) -> None:
        """Lets the time pass, and the engine wake whenever it wants to."""
        while self.wakes <= until:
            self.now = self.wakes
            self._wake()
        self.now = until

    def notify(self) -> None:
        if self.now >= self.free_since:
            self.wakes = self.now

    def _wake(self) -> None:
        oldest = self.waiting.oldest()
        patience = self.forming.patience(self.now)
        if patience > 0:
            assert oldest is not None
            assert self.now + patience <= oldest.ticket.admitted + self.max_wait + NOTHING
            self.wakes = self.now + max(patience, NOTHING / 1000)
            return
        formed = self.forming.take(self.now)
        if oldest is None:
            assert not formed.found_any
            self.wakes = math.inf
            return
        late = oldest.ticket.deadline <= self.now
        assert late or oldest in [*formed.texts, *formed.hopeless]
        assert oldest not in self.waiting
        # Until then the engine ran, or could wait for company.
        latest = max(self.free_since, oldest.ticket.admitted + self.max_wait)
        assert self.now <= latest + NOTHING
        self.free_since = self.now + (self.run_seconds if formed.texts else 0.0)
        self.wakes = self.free_since


@given(EVENTS, st.sampled_from([0.0, 0.5, 10.0]), st.floats(0.0, 30.0))
def test_the_oldest_is_in_the_next_run_and_waits_for_company_no_longer_than_allowed(
    events, max_wait, run_seconds
) -> None:
    asyncio.run(_drive(events, max_wait, run_seconds))


async def _drive(events, max_wait: float, run_seconds: float) -> None:
    waiting: WaitingTexts[Text] = WaitingTexts(1000, 100_000)
    forecast = Forecast(waiting, 1, 100, slow(0.01))
    forming = Forming(waiting, forecast, max_run_tokens=100, max_wait=max_wait)
    engine = Engine(waiting, forming, max_wait, run_seconds)
    texts: list[Text] = []
    for gap, (what, *details) in events:
        engine.go_on(engine.now + gap)
        if what == "arrives":
            texts.append(_text(engine.now, *details))
            waiting.add(texts[-1])
            engine.notify()
        elif texts and (leaving := texts[details[0] % len(texts)]) in waiting:
            leaving.ticket.future.cancel()
            waiting.remove(leaving)
    engine.go_on(engine.now + max_wait + (len(texts) + 1) * (run_seconds + NOTHING))
    assert not waiting.num_texts, "everything gets its turn"


def _text(now: float, num_tokens: int, with_attention: bool, seconds: float) -> Text:
    future = asyncio.get_running_loop().create_future()
    ticket = open_ticket(future, [[1] * num_tokens], None, now + seconds)
    ticket.admitted = now
    (text,) = ticket.texts
    text.with_attention = with_attention
    return text
