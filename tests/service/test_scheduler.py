"""The scheduler with an engine that can be stopped, broken and counted."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import (
    DeadlinePassedError,
    DrainingError,
    EngineLostError,
    InternalFaultError,
    OverloadedError,
)
from service.metrics import Metrics
from service.request.attention import AttentionSelection
from service.scheduler import Scheduler
from tests.service.engines import (
    MISCOUNTS,
    NOT_A_NUMBER,
    RAISES,
    WAITS,
    NumpyEngine,
    expected_logits,
)


class ExitingEngine(NumpyEngine):
    """Ends its thread with what no `except Exception` catches, and threads do not even print."""

    def run(self, rows):
        super().run(rows)
        raise SystemExit


EVERYTHING = AttentionSelection((0, 1), (0, 1, 2), None, False, "float32")


@asynccontextmanager
async def scheduling(
    engines: NumpyEngine | Sequence[NumpyEngine], **limits
) -> AsyncIterator[Scheduler]:
    """A scheduler that must end within ten seconds, whatever happens."""
    async with asyncio.timeout(10):
        scheduler = Scheduler(engines, metrics=Metrics(), **limits)
        try:
            yield scheduler
        finally:
            for engine in [engines] if isinstance(engines, NumpyEngine) else engines:
                engine.gate.set()
            await scheduler.close(5)


async def busy(scheduler: Scheduler, engine: NumpyEngine) -> asyncio.Task:
    """Occupies the engine with one text until its gate opens."""
    task = asyncio.create_task(scheduler.classify([[7]]))
    await asyncio.to_thread(engine.started.wait, 5)
    return task


async def admitted(scheduler: Scheduler, *texts: list[int], **options) -> asyncio.Task:
    """A request that is in the queue when this returns."""
    before = scheduler.num_texts
    task = asyncio.create_task(scheduler.classify(texts, **options))
    while scheduler.num_texts == before:
        await asyncio.sleep(0)
    return task


def logits_of(outcome) -> np.ndarray:
    return np.stack([result.logits for result in outcome.results])


async def test_results_come_in_the_order_of_the_texts() -> None:
    texts = [[5] * 30, [6], [7, 8], [9] * 100, [3] * 30]
    async with scheduling(NumpyEngine(), max_run_tokens=64) as scheduler:
        outcome = await scheduler.classify(texts)
    assert np.array_equal(logits_of(outcome), np.stack([expected_logits(text) for text in texts]))


async def test_texts_that_wait_are_packed_into_one_run() -> None:
    engine = NumpyEngine(open_gate=False)
    async with scheduling(engine) as scheduler:
        first = await busy(scheduler, engine)
        others = [await admitted(scheduler, [number]) for number in range(10, 20)]
        engine.gate.set()
        await asyncio.gather(first, *others)
    assert [len(run) for run in engine.runs] == [1, 10]


async def test_a_request_may_be_spread_over_runs_and_engines() -> None:
    engines = [NumpyEngine(), NumpyEngine()]
    async with scheduling(engines, max_run_tokens=10) as scheduler:
        outcome = await scheduler.classify([[number] * 6 for number in range(1, 9)])
    assert logits_of(outcome)[:, 2].tolist() == list(range(1, 9))
    assert sum(len(engine.runs) for engine in engines) == 8


class NiceEngine(NumpyEngine):
    """Notes how its thread stands with the system."""

    niceness = 0

    def run(self, rows):
        self.niceness = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        return super().run(rows)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a niceness per thread")
async def test_engines_step_back_behind_the_event_loop() -> None:
    engine = NiceEngine()
    async with scheduling(engine) as scheduler:
        await scheduler.classify([[1, 2, 3]])
    assert engine.niceness > os.getpriority(os.PRIO_PROCESS, 0)


async def test_a_full_queue_refuses_at_once_and_says_when_to_come_back() -> None:
    engine = NumpyEngine(open_gate=False)
    async with scheduling(engine, max_queue_texts=2) as scheduler:
        await busy(scheduler, engine)
        waiting = await admitted(scheduler, [1], [2])
        with pytest.raises(OverloadedError, match="at most 2 texts") as refused:
            await scheduler.classify([[3]])
        assert refused.value.retry_after > 0
        engine.gate.set()
        await waiting


async def test_the_texts_of_a_request_are_refused_as_one() -> None:
    engine = NumpyEngine(open_gate=False)
    async with scheduling(engine, max_queue_tokens=10) as scheduler:
        await busy(scheduler, engine)
        await admitted(scheduler, [1] * 6)
        with pytest.raises(OverloadedError, match="at most 10 tokens"):
            await scheduler.classify([[2] * 2, [3] * 3])
        assert scheduler.num_texts == 1


async def test_a_cancelled_caller_is_not_computed_for_and_disturbs_nobody() -> None:
    engine = NumpyEngine(open_gate=False)
    async with scheduling(engine) as scheduler:
        first = await busy(scheduler, engine)
        leaving, staying = await admitted(scheduler, [11], [12]), await admitted(scheduler, [13])
        leaving.cancel()
        await asyncio.wait([leaving])
        assert scheduler.num_texts == 1
        engine.gate.set()
        await first
        assert logits_of(await staying)[0, 2] == 13
    assert engine.runs == [[(7,)], [(13,)]]


async def test_a_caller_that_leaves_while_running_does_not_disturb_its_run() -> None:
    engine = NumpyEngine(open_gate=False)
    async with scheduling(engine) as scheduler:
        first = await busy(scheduler, engine)
        leaving, staying = await admitted(scheduler, [WAITS]), await admitted(scheduler, [13])
        engine.gate.set()
        await first
        await asyncio.to_thread(wait_for_runs, engine, 2)
        leaving.cancel()
        await asyncio.wait([leaving])
        engine.inner_gate.set()
        assert logits_of(await staying)[0, 2] == 13
    assert engine.runs[1] == [(WAITS,), (13,)]


def wait_for_runs(engine: NumpyEngine, count: int) -> None:
    while len(engine.runs) < count:
        engine.started.wait(5)


async def test_a_late_text_is_left_out_of_a_run_even_if_the_loop_is_busy() -> None:
    engine = NumpyEngine(open_gate=False)
    async with scheduling(engine) as scheduler:
        first = await busy(scheduler, engine)
        deadline = time.monotonic() + 0.05
        late = await admitted(scheduler, [11], deadline=deadline)
        staying = await admitted(scheduler, [12])
        engine.started.clear()
        # From here to the start of the run the loop does nothing, the caller's timer included.
        while time.monotonic() <= deadline:
            time.sleep(0.01)
        engine.gate.set()
        engine.started.wait(5)
        outcomes = await asyncio.gather(first, late, staying, return_exceptions=True)
    assert engine.runs[1] == [(12,)]
    assert isinstance(outcomes[1], DeadlinePassedError)


async def test_a_caller_whose_deadline_passed_is_told_and_not_computed_for() -> None:
    engine = NumpyEngine(open_gate=False)
    async with scheduling(engine) as scheduler:
        first = await busy(scheduler, engine)
        with pytest.raises(DeadlinePassedError, match="queued"):
            await scheduler.classify([[11]], deadline=time.monotonic() + 0.01)
        engine.gate.set()
        await first
    assert engine.runs == [[(7,)]]


async def test_a_deadline_also_ends_the_wait_for_an_engine_that_hangs() -> None:
    engine = NumpyEngine(open_gate=False)
    async with scheduling(engine) as scheduler:
        with pytest.raises(DeadlinePassedError, match="running"):
            await scheduler.classify([[11]], deadline=time.monotonic() + 0.05)


async def test_a_run_that_raises_fails_its_callers_only(caplog) -> None:
    engine = NumpyEngine(open_gate=False)
    async with scheduling(engine, max_run_tokens=2) as scheduler:
        first = await busy(scheduler, engine)
        broken = [await admitted(scheduler, [RAISES]), await admitted(scheduler, [31])]
        well = await admitted(scheduler, [32])
        engine.gate.set()
        outcomes = await asyncio.gather(first, *broken, well, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes[1:3]] == [InternalFaultError] * 2
    assert logits_of(outcomes[3])[0, 2] == 32
    assert "the engine broke" in caplog.text


async def test_a_fault_ends_a_request_and_takes_its_other_texts_out_of_the_queue() -> None:
    engine = NumpyEngine()
    async with scheduling(engine, max_run_tokens=1) as scheduler:
        with pytest.raises(InternalFaultError):
            await scheduler.classify([[RAISES], *([number] for number in range(50))])
        assert scheduler.num_texts == 0


async def test_a_logit_that_is_not_a_number_fails_its_own_caller_only() -> None:
    engine = NumpyEngine(open_gate=False)
    async with scheduling(engine) as scheduler:
        first = await busy(scheduler, engine)
        sick, well = await admitted(scheduler, [NOT_A_NUMBER]), await admitted(scheduler, [41])
        engine.gate.set()
        outcomes = await asyncio.gather(first, sick, well, return_exceptions=True)
    assert len(engine.runs[1]) == 2, "both must have shared a run"
    assert isinstance(outcomes[1], InternalFaultError)
    assert logits_of(outcomes[2])[0, 2] == 41


async def test_an_engine_that_answers_too_few_texts_is_a_fault() -> None:
    async with scheduling(NumpyEngine()) as scheduler:
        with pytest.raises(InternalFaultError):
            await scheduler.classify([[MISCOUNTS], [2]])
        assert logits_of(await scheduler.classify([[5]]))[0, 2] == 5


async def test_attention_is_cut_to_each_text_and_runs_apart_from_plain_ones() -> None:
    engine = NumpyEngine(open_gate=False)
    async with scheduling(engine) as scheduler:
        first = await busy(scheduler, engine)
        plain = await admitted(scheduler, [1, 2])
        curious = await admitted(scheduler, [3] * 4, [4] * 5, attention=EVERYTHING)
        engine.gate.set()
        _, _, outcome = await asyncio.gather(first, plain, curious)
    assert [len(run) for run in engine.runs] == [1, 1, 2]
    for length, result in zip((4, 5), outcome.results, strict=True):
        weights = np.frombuffer(result.attention.data, "<f4").reshape(result.attention.shape)
        assert np.array_equal(weights, np.full((2, 3, length, length), np.float32(1 / length)))


async def test_the_queue_can_be_read_while_it_waits() -> None:
    engine = NumpyEngine(open_gate=False)
    async with scheduling(engine) as scheduler:
        assert (scheduler.num_texts, scheduler.age_seconds) == (0, 0)
        await busy(scheduler, engine)
        await admitted(scheduler, [1, 2, 3])
        assert (scheduler.num_texts, scheduler.num_tokens, scheduler.num_running) == (1, 3, 1)
        assert scheduler.age_seconds > 0


async def test_no_caller_waits_for_an_engine_whose_thread_has_ended(caplog) -> None:
    engine = ExitingEngine(open_gate=False)
    async with scheduling(engine) as scheduler:
        callers = [await busy(scheduler, engine), await admitted(scheduler, [1, 2])]
        engine.gate.set()
        for outcome in await asyncio.gather(*callers, return_exceptions=True):
            assert isinstance(outcome, EngineLostError)
        with pytest.raises(EngineLostError):
            await scheduler.classify([[1]])
        assert scheduler.lost == "an engine's thread ended with SystemExit"
        assert "The thread of engine 0 has ended" in caplog.text
        assert await scheduler.close(5)


async def test_closing_finishes_what_was_accepted_and_refuses_the_rest() -> None:
    engine = NumpyEngine(open_gate=False)
    async with scheduling(engine) as scheduler:
        accepted = [await busy(scheduler, engine), await admitted(scheduler, [1], [2])]
        closing = asyncio.create_task(scheduler.close(5))
        await asyncio.sleep(0)
        with pytest.raises(DrainingError):
            await scheduler.classify([[3]])
        engine.gate.set()
        assert await closing
        await asyncio.gather(*accepted)


async def test_closing_ends_even_if_an_engine_hangs() -> None:
    engine = NumpyEngine(open_gate=False)
    async with scheduling(engine) as scheduler:
        accepted = [await busy(scheduler, engine), await admitted(scheduler, [1])]
        assert not await scheduler.close(0.05)
        outcomes = await asyncio.gather(*accepted, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [DrainingError] * 2


REQUESTS = st.lists(
    st.tuples(
        st.lists(st.integers(1, 60), min_size=1, max_size=4),  # lengths of its texts
        st.sampled_from(["stays", "leaves", "late", "breaks", "is sick"]),
        st.booleans(),  # attention
        st.booleans(),  # lets others run before the next
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=60)
@given(REQUESTS, st.integers(1, 2))
def test_whatever_callers_and_engines_do_nobody_hangs_and_answers_are_right(
    requests, num_engines
) -> None:
    asyncio.run(_chaos(requests, num_engines))


async def _chaos(requests, num_engines) -> None:
    """Every request ends; one that stays gets its own answer unless its run was broken."""
    engines = [NumpyEngine() for _ in range(num_engines)]
    bad = {"breaks": RAISES, "is sick": NOT_A_NUMBER}
    async with scheduling(engines, max_run_tokens=64) as scheduler:
        tasks = []
        for number, (lengths, fate, curious, pauses) in enumerate(requests, 10):
            texts = [[number] * length for length in lengths]
            texts[-1][-1] = bad.get(fate, number)
            deadline = time.monotonic() + (0.001 if fate == "late" else 60)
            attention = EVERYTHING if curious else None
            coroutine = scheduler.classify(texts, attention=attention, deadline=deadline)
            tasks.append(asyncio.create_task(coroutine))
            if pauses:
                await asyncio.sleep(0)
            if fate == "leaves":
                tasks[-1].cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert (scheduler.num_texts, scheduler.num_tokens) == (0, 0)
    broken = {text for engine in engines for run in engine.runs if _broken(run) for text in run}
    for number, (lengths, fate, *_) in enumerate(requests, 10):
        outcome = outcomes[number - 10]
        shared = any((number,) * length in broken for length in lengths)
        if fate == "stays" and not shared:
            assert logits_of(outcome)[:, 0].tolist() == lengths
            assert (logits_of(outcome)[:, 2] == number).all()
        elif fate in bad:
            assert isinstance(outcome, InternalFaultError)


def _broken(run: list[tuple[int, ...]]) -> bool:
    return any(text[-1] == RAISES for text in run)
