"""What cannot be answered in time is refused early, given up early, and counted."""

import asyncio
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import DeadlinePassedError, HopelessDeadlineError, OverloadedError
from service.scheduler import Scheduler
from service.scheduling.forecast import Forecast
from service.scheduling.prediction import RunCost
from service.scheduling.waiting import WaitingTexts
from tests.service.engines import NumpyEngine
from tests.service.scheduling.test_waiting import Waiter
from tests.service.test_scheduler import admitted, busy, logits_of, scheduling

SECOND_A_TOKEN = 1.0


def slow(seconds_per_token: float = SECOND_A_TOKEN) -> RunCost:
    """What would be known of an engine of this speed."""
    cost = RunCost()
    cost.anchor(1, 1, seconds_per_token)
    cost.anchor(100, 10_000, 100 * seconds_per_token)
    return cost


def counted(scheduler: Scheduler, name: str, **labels: str) -> float:
    return scheduler._metrics.registry.get_sample_value(f"heedful_{name}_total", labels) or 0.0


async def test_a_request_behind_too_much_work_is_refused_at_once() -> None:
    engine = NumpyEngine(open_gate=False)
    async with scheduling(engine, cost=slow(), max_queue_seconds=100.0) as scheduler:
        await busy(scheduler, engine)
        await admitted(scheduler, [1] * 20)
        with pytest.raises(HopelessDeadlineError, match="allow more time"):
            await scheduler.classify([[2]], deadline=time.monotonic() + 10)
        assert scheduler.num_texts == 1
        assert counted(scheduler, "departed", stage="tokenized") == 1
        await admitted(scheduler, [2], deadline=time.monotonic() + 60)


async def test_the_door_refuses_before_anything_is_tokenized() -> None:
    engine = NumpyEngine(open_gate=False)
    async with scheduling(
        engine, cost=slow(), max_queue_texts=2, max_queue_seconds=100.0
    ) as scheduler:
        await busy(scheduler, engine)
        await admitted(scheduler, [1] * 20)
        with pytest.raises(HopelessDeadlineError):
            scheduler.check_door([1], False, time.monotonic() + 10)
        with pytest.raises(OverloadedError, match="at most 2 texts"):
            scheduler.check_door([1, 1], False, math.inf)
        with pytest.raises(DeadlinePassedError):
            scheduler.check_door([1], False, time.monotonic() - 1)
        assert counted(scheduler, "departed", stage="door") == 2
        scheduler.check_door([1], False, time.monotonic() + 60)
        with pytest.raises(HopelessDeadlineError):
            scheduler.check_door([40], False, time.monotonic() + 60)


async def test_a_guess_at_the_door_takes_no_room() -> None:
    engine = NumpyEngine(open_gate=False)
    async with scheduling(engine, max_queue_tokens=30) as scheduler:
        await busy(scheduler, engine)
        await admitted(scheduler, [1] * 20)
        scheduler.check_door([500], False, math.inf)  # it may have ten
        await admitted(scheduler, [1] * 10)
        with pytest.raises(OverloadedError, match="at most 30 tokens"):
            scheduler.check_door([1], False, math.inf)


async def test_an_idle_engine_refuses_nobody_however_slow_it_is_thought_to_be() -> None:
    async with scheduling(NumpyEngine(), cost=slow(1000.0)) as scheduler:
        scheduler.check_door([1], False, time.monotonic() + 5)
        outcome = await scheduler.classify([[3]], deadline=time.monotonic() + 5)
        assert logits_of(outcome)[0, 2] == 3


async def test_a_wrong_prediction_is_unlearned_by_an_idle_engine() -> None:
    async with scheduling(NumpyEngine(), cost=slow(1000.0)) as scheduler:
        for _ in range(200):
            await scheduler.classify([[3, 4]], deadline=time.monotonic() + 5)
        assert scheduler._forecast.seconds((2, 4), False) < 1000


async def test_the_queue_is_bounded_in_predicted_seconds() -> None:
    engine = NumpyEngine(open_gate=False)
    async with scheduling(engine, cost=slow(), max_queue_seconds=15.0) as scheduler:
        await busy(scheduler, engine)
        await admitted(scheduler, [1] * 20)
        with pytest.raises(OverloadedError, match=r"at most 15\.0 seconds of work") as refused:
            await scheduler.classify([[2]])
        assert refused.value.retry_after == 10.0  # 21 seconds are predicted, 10 the most said


async def test_when_a_run_is_formed_the_hopeless_are_told_and_make_room() -> None:
    engine = NumpyEngine(open_gate=False)
    async with scheduling(engine, cost=slow(0.5)) as scheduler:
        first = await busy(scheduler, engine)
        hopeless = await admitted(scheduler, [11] * 4, deadline=time.monotonic() + 60)
        staying = await admitted(scheduler, [12])
        # As if its time had run out but for a second, of the two that its run takes.
        for text in list(scheduler._waiting._keys):
            if text.num_tokens == 4:
                text.ticket.deadline = time.monotonic() + 1.0
        engine.gate.set()
        with pytest.raises(HopelessDeadlineError):
            await hopeless
        await asyncio.gather(first, staying)
        assert counted(scheduler, "departed", stage="queued") == 1
    assert engine.runs == [[(7,)], [(12,)]]


async def test_tokens_computed_for_somebody_who_left_are_counted() -> None:
    engine = NumpyEngine(open_gate=False)
    async with scheduling(engine) as scheduler:
        leaving = asyncio.create_task(scheduler.classify([[1] * 5]))
        await asyncio.to_thread(engine.started.wait, 5)
        leaving.cancel()
        await asyncio.wait([leaving])
        engine.gate.set()
        await scheduler.classify([[2] * 3])
        assert counted(scheduler, "wasted_tokens") == 5


async def test_an_idle_engine_waits_for_company_if_told_to() -> None:
    engine = NumpyEngine()
    async with scheduling(engine, max_wait=0.2) as scheduler:
        await asyncio.gather(*(scheduler.classify([[number]]) for number in range(1, 6)))
    assert [len(run) for run in engine.runs] == [5]


async def test_a_full_run_does_not_wait_for_more_company() -> None:
    engine = NumpyEngine()
    async with scheduling(engine, max_wait=60.0, max_run_tokens=8) as scheduler:
        await scheduler.classify([[1] * 4, [2] * 4])
    assert [len(run) for run in engine.runs] == [2]


async def test_waiting_for_company_ends_in_time_for_the_deadline() -> None:
    async with scheduling(NumpyEngine(), max_wait=60.0, cost=slow(0.5)) as scheduler:
        await scheduler.classify([[1]], deadline=time.monotonic() + 0.8)


async def test_closing_does_not_wait_for_company() -> None:
    engine = NumpyEngine()
    async with scheduling(engine, max_wait=60.0) as scheduler:
        waiting = await admitted(scheduler, [1])
        assert await scheduler.close(5)
        await waiting


LENGTHS = st.lists(st.integers(1, 300), max_size=30)


@given(LENGTHS, LENGTHS, st.integers(1, 4), st.integers(0, 4))
def test_more_before_you_never_means_an_earlier_answer(before, more, engines, running) -> None:
    def predicted(lengths: list[int]) -> float:
        queue: WaitingTexts[Waiter] = WaitingTexts(1000, 100_000)
        forecast = Forecast(queue, engines, 256, slow())
        for engine in range(min(running, engines)):
            forecast.began(engine, (10, 100), False, now=0.0)
        for length in lengths:
            queue.add(Waiter(length))
        needed = forecast.until_answer((20, 400), 1, False, now=5.0)
        assert (needed is None) == forecast.idle
        return needed or 0.0

    assert predicted(before) <= predicted(before + more) * (1 + 1e-9)


def test_a_predicted_wait_counts_half_as_much_again() -> None:
    queue: WaitingTexts[Waiter] = WaitingTexts(1000, 100_000)
    forecast = Forecast(queue, 2, 256, slow())
    for engine in range(2):
        forecast.began(engine, (10, 100), False, now=0.0)
    queue.add(Waiter(30))
    # 30 tokens wait and 6 + 6 are left to run, on two engines; the text itself takes 20, and the
    # 30 may share its run, where the other engine does not help.
    expected = 1.5 * (30 + 6 + 6) / 2 + 20 + 30 / 2
    assert forecast.until_answer((20, 400), 1, False, now=4.0) == pytest.approx(expected)
    assert forecast.wait(now=4.0) == pytest.approx((30 + 6 + 6) / 2)
