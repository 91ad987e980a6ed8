"""An engine that hangs or answers wrongly turns health, and is well again when it is."""

import asyncio

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub

from heedful.v1 import classifier_pb2 as pb
from service.backends.timed import TimedEngine
from service.versions.watchdog import sing
from tests.service.calls import TIMEOUT, texts
from tests.service.engines import GoldenEngine
from tests.service.shelves import Shelf, on_the_wire

NOT_SERVING, SERVING = (
    health_pb2.HealthCheckResponse.NOT_SERVING,
    health_pb2.HealthCheckResponse.SERVING,
)
MODEL = "heedful.v1.Classifier/reviews"


class MoodyEngine(GoldenEngine):
    """Answers its known example as the test says."""

    error: Exception | None = None
    shift = 0.0

    def run(self, rows):
        if self.error:
            raise self.error
        return super().run(rows) + np.float32(self.shift)


class MoodyShelf(Shelf):
    def load(self, bundle, config):
        engine = self.engines[bundle.manifest.version] = MoodyEngine(bundle)
        return engine


@pytest.fixture
def shelf(tmp_path, tiny_bundle) -> MoodyShelf:
    shelf = MoodyShelf(tmp_path / "models", tiny_bundle)
    for version in ("1", "2"):
        shelf.put("reviews", version)
    return shelf


def watch(wire, service: str):
    request = health_pb2.HealthCheckRequest(service=service)
    return HealthStub(wire.channel).Watch(request, timeout=TIMEOUT)


async def check(wire, service: str) -> int:
    request = health_pb2.HealthCheckRequest(service=service)
    return (await HealthStub(wire.channel).Check(request, timeout=TIMEOUT)).status


async def test_a_run_that_hangs_turns_health_until_it_returns(shelf) -> None:
    settings = {"stuck_seconds": 0.05, "canary_seconds": 0}
    async with asyncio.timeout(TIMEOUT), on_the_wire(shelf, **settings) as wire:
        statuses = watch(wire, "")
        assert (await statuses.read()).status == SERVING
        engine = shelf.engines["2"]
        engine.gate.clear()
        hanging = wire.classifier.Classify(texts("a"), timeout=TIMEOUT)
        assert (await statuses.read()).status == NOT_SERVING
        assert await check(wire, MODEL) == NOT_SERVING
        assert await check(wire, f"{MODEL}/2") == NOT_SERVING
        assert await check(wire, f"{MODEL}/1") == SERVING
        row = (await wire.rows())["reviews", "2"]
        assert row.state == pb.MODEL_STATE_FAILED
        assert "over 0.05 s" in row.reason
        ready = wire.server.metrics.registry.get_sample_value
        labels = {"model": "reviews", "version": "2"}
        assert ready("heedful_model_ready", labels) == 0
        engine.gate.set()
        assert (await statuses.read()).status == SERVING
        assert (await hanging).version == "2"
        assert ready("heedful_model_ready", labels) == 1


async def test_a_text_that_waits_while_no_engine_runs_turns_health(shelf) -> None:
    settings = {"stuck_seconds": 0.05, "canary_seconds": 0, "max_wait_ms": 1000}
    async with asyncio.timeout(TIMEOUT), on_the_wire(shelf, **settings) as wire:
        statuses = watch(wire, "")
        assert (await statuses.read()).status == SERVING
        waiting = wire.classifier.Classify(texts("a"), timeout=TIMEOUT)
        assert (await statuses.read()).status == NOT_SERVING
        assert "no engine runs" in (await wire.rows())["reviews", "2"].reason
        assert (await waiting).results
        assert (await statuses.read()).status == SERVING


@pytest.mark.parametrize(
    ("error", "shift", "outcome"), [(None, 1.0, "wrong"), (RuntimeError("broke"), 0.0, "failed")]
)
async def test_a_canary_notices_answers_that_became_wrong_and_right_again(
    shelf, error, shift, outcome
) -> None:
    settings = {"stuck_seconds": 0, "canary_seconds": 0.02}
    async with asyncio.timeout(TIMEOUT), on_the_wire(shelf, **settings) as wire:
        statuses = watch(wire, MODEL)
        assert (await statuses.read()).status == SERVING
        engine = shelf.engines["2"]
        engine.error, engine.shift = error, shift
        assert (await statuses.read()).status == NOT_SERVING
        assert await check(wire, "") == NOT_SERVING
        assert "canary" in (await wire.rows())["reviews", "2"].reason
        engine.error, engine.shift = None, 0.0
        assert (await statuses.read()).status == SERVING
        runs = wire.server.metrics.registry.get_sample_value
        for result in ("passed", outcome):
            labels = {"model": "reviews", "outcome": result}
            assert runs("heedful_canary_runs_total", labels) >= 1


async def test_a_canary_that_finds_no_room_says_nothing(shelf) -> None:
    settings = {"canary_seconds": 0.02, "stuck_seconds": 0, "max_queue_texts": 1, "max_inputs": 1}
    async with asyncio.timeout(TIMEOUT), on_the_wire(shelf, **settings) as wire:
        engine = shelf.engines["2"]
        served = wire.server.models.get("reviews")
        engine.shift = 1.0
        while not served.trouble:
            await asyncio.sleep(0.01)
        engine.gate.clear()
        engine.started.clear()
        calls = [wire.classifier.Classify(texts("a"), timeout=TIMEOUT)]
        await asyncio.to_thread(engine.started.wait, TIMEOUT)
        calls.append(wire.classifier.Classify(texts("a"), timeout=TIMEOUT))
        while not served.scheduler.num_texts:
            await asyncio.sleep(0.01)
        assert await sing(served) == ("skipped", "")
        count, skipped = (
            wire.server.metrics.registry.get_sample_value,
            {"model": "reviews", "outcome": "skipped"},
        )
        while not count("heedful_canary_runs_total", skipped):
            await asyncio.sleep(0.01)
        assert "wrong" in served.trouble, "it is still what was last known"
        engine.gate.set()
        for call in calls:
            assert (await call).version == "2"


async def test_models_that_come_and_go_have_their_own_health(shelf) -> None:
    async with asyncio.timeout(TIMEOUT), on_the_wire(shelf) as wire:
        coming = watch(wire, f"{MODEL}/3")
        assert (await coming.read()).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        shelf.put("reviews", "3")
        await wire.server.repository.load("reviews")
        assert (await coming.read()).status == SERVING
        await wire.server.repository.unload("reviews", "3")
        assert (await coming.read()).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        await wire.server.repository.unload("reviews")
        assert await check(wire, "") == NOT_SERVING
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await check(wire, MODEL)
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND


def test_an_engine_between_runs_has_not_run_for_any_time(tiny_bundle) -> None:
    engine = TimedEngine(MoodyEngine(tiny_bundle))
    assert engine.running_seconds == 0
