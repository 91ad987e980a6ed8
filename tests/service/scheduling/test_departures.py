"""Callers that leave, and a server that leaves, seen over real connections."""

import time
from collections.abc import Callable

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub

from heedful.v1.classifier_pb2_grpc import ClassifierStub
from tests.service.calls import TIMEOUT, Caller, texts
from tests.service.engines import hold


def departed(server, stage: str) -> float:
    registry = server.server.metrics.registry
    return registry.get_sample_value("heedful_departed_total", {"stage": stage}) or 0.0


def wait_until(what: Callable[[], float]) -> None:
    end = time.monotonic() + TIMEOUT
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize("way", ["cancels", "is late"])
def test_a_caller_that_left_is_not_computed_for_and_is_counted(
    held, held_server, engine, way
) -> None:
    first = hold(held, engine)
    timeout = 0.1 if way == "is late" else TIMEOUT
    leaving = held.stub.Classify.future(texts("房间"), timeout=timeout)
    if way == "cancels":
        wait_until(lambda: held_server.server.models.num_texts)  # or it may never get there
        leaving.cancel()
    assert leaving.code() in {grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED}
    staying = held.stub.Classify.future(texts("kind"), timeout=TIMEOUT)
    # The caller knows before the server does, whose engine must not be faster.
    wait_until(lambda: departed(held_server, "queued"))
    engine.gate.set()
    assert first.result().results
    assert staying.result().results
    served = held_server.bundle.text_encoder().encode("房间").input_ids
    assert tuple(served) not in {text for run in engine.runs[-2:] for text in run}


def test_a_stopping_server_says_so_refuses_new_work_and_finishes_the_old(
    held, held_server, engine
) -> None:
    first = hold(held, engine)
    watch = HealthStub(held.channel).Watch(health_pb2.HealthCheckRequest(), timeout=TIMEOUT)
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
    held_server.begin_stop()
    assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
    assert list(watch) == []
    refusal = held.refused(texts("late"))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
    engine.gate.set()
    assert first.result().results
    assert held_server.stop(), "everything accepted was answered"


def test_a_stop_ends_within_its_grace_though_an_engine_hangs(
    start_server, tiny_bundle, engine
) -> None:
    server = start_server(tiny_bundle, load=lambda bundle, config: engine, grace=0.1)
    with grpc.insecure_channel(server.address) as channel:
        call = hold(Caller(ClassifierStub(channel), channel), engine)
        assert not server.stop(), "an engine did not come back"
        assert call.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
    engine.gate.set()
