"""Callers that cancel and run late at random: none hangs, and no neighbour is disturbed."""

import asyncio
import collections
import random
import time

import grpc
import pytest

from heedful.v1 import classifier_pb2 as pb
from tests.conftest import SENTENCES
from tests.service.calls import texts
from tests.service.engines import WAITS, NumpyEngine
from tests.service.test_scheduler import logits_of, scheduling, wait_for_runs

CLASSIFY = "/heedful.v1.Classifier/Classify"
AT_ONCE = 64
TIMEOUT = 60.0
# What one answer counts in the average of those before it.
TYPICAL_SHARE = 0.05
LATE = grpc.StatusCode.DEADLINE_EXCEEDED


class Chaos:
    """Sends requests whose callers stay, cancel or have little time.

    How little is measured by what answers take now, so that a fast and a slow machine alike see
    callers leave at every stage, and some just after their answer has come.
    """

    def __init__(self, channel: grpc.aio.Channel, seed: int) -> None:
        self._call = channel.unary_unary(CLASSIFY)
        self._random = random.Random(seed)  # noqa: S311 - reproducible, not secret
        self.outcomes: collections.Counter[tuple[str, str]] = collections.Counter()
        self.expected: dict[str, float] = {}
        self._typical = 0.0  # seconds to an answer, a moving average

    async def learn_answers(self) -> None:
        for text in SENTENCES:
            self.expected[text] = self._logit(await self._ask([text], TIMEOUT), 0)

    async def run(self, count: int) -> None:
        numbers = iter(range(count))

        async def caller() -> None:
            for _ in numbers:
                await self._one()

        await asyncio.gather(*(caller() for _ in range(AT_ONCE)))

    async def _one(self) -> None:
        fate = self._random.choice(["stays", "stays", "cancels", "is late"])
        chosen = self._random.choices(SENTENCES, k=self._random.randint(1, 6))
        patience = self._random.uniform(0, 2 * self._typical)
        start = time.monotonic()
        call = self._ask(chosen, 0.001 + patience if fate == "is late" else TIMEOUT)
        if fate == "cancels":
            asyncio.get_running_loop().call_later(patience, call.cancel)
        try:
            answer = await call
        except grpc.aio.AioRpcError as error:
            self.outcomes[fate, error.code().name] += 1
        except asyncio.CancelledError:
            self.outcomes[fate, "CANCELLED"] += 1
        else:
            self.outcomes[fate, "OK"] += 1
            if fate == "stays":
                self._typical += TYPICAL_SHARE * (time.monotonic() - start - self._typical)
            for place, text in enumerate(chosen):
                assert self._logit(answer, place) == pytest.approx(self.expected[text], abs=1e-5)

    def _ask(self, chosen: list[str], timeout: float) -> "grpc.aio.UnaryUnaryCall[bytes, bytes]":
        return self._call(texts(*chosen).SerializeToString(), timeout=timeout)

    def _logit(self, answer: bytes, place: int) -> float:
        labels = pb.ClassifyResponse.FromString(answer).results[place].labels
        return min(labels, key=lambda score: score.index).logit


async def _chaos(address: str, count: int, seed: int = 0) -> Chaos:
    async with asyncio.timeout(TIMEOUT + count / 20), grpc.aio.insecure_channel(address) as channel:
        chaos = Chaos(channel, seed)
        await chaos.learn_answers()
        await chaos.run(count)
    return chaos


@pytest.mark.parametrize(
    "count", [2_000, pytest.param(100_000, marks=pytest.mark.soak)], ids="{:,} requests".format
)
def test_none_hangs_and_no_neighbour_fails(start_server, exported_bundle, count) -> None:
    server = start_server(exported_bundle, instances=2)
    chaos = asyncio.run(_chaos(server.address, count))
    allowed = {
        "stays": {"OK"},
        "cancels": {"OK", "CANCELLED"},
        "is late": {"OK", LATE.name, "CANCELLED"},
    }
    assert all(code in allowed[fate] for fate, code in chaos.outcomes), chaos.outcomes
    # The test says nothing unless callers left before their answers and after.
    seen = {("stays", "OK"), ("cancels", "OK"), ("cancels", "CANCELLED"), ("is late", LATE.name)}
    assert seen <= chaos.outcomes.keys(), chaos.outcomes
    assert server.server.metrics.registry.get_sample_value("heedful_queue_texts") == 0


async def test_a_run_that_hangs_leaves_the_others_to_go_on() -> None:
    engine = NumpyEngine()
    async with scheduling([engine, engine]) as scheduler:
        hung = asyncio.create_task(scheduler.classify([[WAITS]]))
        await asyncio.to_thread(wait_for_runs, engine, 1)
        for number in range(1, 40):
            assert logits_of(await scheduler.classify([[number]]))[0, 2] == number
        assert not hung.done()
        engine.inner_gate.set()
        await hung
