"""Each row of the status table, seen from the other end of the wire."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc import StatusCode

from heedful.v1 import classifier_pb2 as pb
from heedful.v1.classifier_pb2_grpc import ClassifierStub
from model.errors import HeedfulError, InvalidInputError
from service.errors import (
    AdminOffError,
    AttentionTooLargeError,
    DeadlinePassedError,
    DeviceLostError,
    DeviceMemoryError,
    DrainingError,
    EngineLostError,
    HopelessDeadlineError,
    InternalFaultError,
    LoadFailedError,
    LoadingError,
    NotFoundError,
    OverloadedError,
    UnauthenticatedError,
    UnsupportedError,
)
from service.metrics import Metrics
from service.network.border import Border
from service.network.status import TABLE, status_of
from service.versions.models import Models, ServedModel
from tests.service.calls import TIMEOUT, Refusal, refusal_of, texts
from tests.service.engines import NOT_A_NUMBER, RAISES, hold


def row(refusal: Refusal) -> tuple[StatusCode, str]:
    return refusal.code, refusal.reason


@asynccontextmanager
async def at_the_border(servicer: Any, draining: bool = False) -> AsyncIterator[Any]:
    """A stub of a server that has nothing but the border and this servicer."""
    models = Models()
    if servicer is not None:
        models.add(Standing(servicer))
    border = Border(models, metrics=Metrics(), default_timeout=TIMEOUT)
    if draining:
        border.drain()
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((border.handlers(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield ClassifierStub(channel)
    await server.stop(None)


class Standing(ServedModel):
    """A model that is nothing but its servicer."""

    name, version = "standing", "1"

    def __init__(self, servicer: Any) -> None:
        super().__init__(None, None, None, servicer)


class Raises:
    """A servicer whose every answer is one error."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def classify(self, request, call):
        raise self.error


async def refusal_for(servicer: Any, text: str = "a", **settings) -> Refusal:
    async with at_the_border(servicer, **settings) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.Classify(texts(text), timeout=TIMEOUT)
    return refusal_of(refused.value)


ROWS = [
    (InvalidInputError("shorten it"), StatusCode.INVALID_ARGUMENT, "INVALID_INPUT"),
    (UnauthenticatedError(), StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED"),
    (NotFoundError("model", "a", "b"), StatusCode.NOT_FOUND, "NOT_SERVED"),
    (UnsupportedError("no attention"), StatusCode.FAILED_PRECONDITION, "UNSUPPORTED"),
    (AttentionTooLargeError(9, 5), StatusCode.RESOURCE_EXHAUSTED, "ATTENTION_TOO_LARGE"),
    (OverloadedError("texts", 5, 0.25), StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL"),
    (DeviceMemoryError(512), StatusCode.RESOURCE_EXHAUSTED, "DEVICE_MEMORY"),
    (DeadlinePassedError("queued"), StatusCode.DEADLINE_EXCEEDED, "DEADLINE_PASSED"),
    (HopelessDeadlineError(2.0, 0.5), StatusCode.DEADLINE_EXCEEDED, "DEADLINE_HOPELESS"),
    (LoadFailedError("a", "broken"), StatusCode.FAILED_PRECONDITION, "LOAD_FAILED"),
    (AdminOffError(), StatusCode.FAILED_PRECONDITION, "ADMIN_OFF"),
    (LoadingError(), StatusCode.UNAVAILABLE, "LOADING"),
    (DrainingError(), StatusCode.UNAVAILABLE, "DRAINING"),
    (DeviceLostError(), StatusCode.UNAVAILABLE, "DEVICE_LOST"),
    (EngineLostError(), StatusCode.UNAVAILABLE, "ENGINE_LOST"),
    (InternalFaultError(), StatusCode.INTERNAL, "INTERNAL_FAULT"),
]


def test_every_error_of_the_table_is_tested() -> None:
    assert set(TABLE) == {type(error) for error, *_ in ROWS}


@pytest.mark.parametrize(("error", "code", "reason"), ROWS)
async def test_an_error_becomes_its_row_of_the_table(error, code, reason) -> None:
    refusal = await refusal_for(Raises(error))
    assert row(refusal) == (code, reason)
    assert refusal.message == str(error)
    assert refusal.retry_seconds == (0.25 if reason == "QUEUE_FULL" else None)


def test_an_error_the_table_does_not_know_says_nothing_about_itself() -> None:
    status = status_of(HeedfulError("secret"))
    assert (status.code, status.reason) == (StatusCode.INTERNAL, "INTERNAL_FAULT")
    assert "secret" not in status.message


async def test_a_bug_is_our_fault_and_leaves_texts_out_of_log_and_answer(caplog) -> None:
    refusal = await refusal_for(Raises(KeyError("my secret text")))
    assert row(refusal) == (StatusCode.INTERNAL, "INTERNAL_FAULT")
    assert "KeyError" in caplog.text
    assert "test_status.py" in caplog.text, "the log must show where"
    assert "secret" not in caplog.text + refusal.message


async def test_a_cancellation_of_our_own_is_told_and_does_not_leave_the_caller_waiting() -> None:
    refusal = await refusal_for(Raises(asyncio.CancelledError()))
    assert refusal.code is StatusCode.UNAVAILABLE


async def test_before_the_model_is_loaded_calls_are_unavailable() -> None:
    assert row(await refusal_for(None)) == (StatusCode.UNAVAILABLE, "LOADING")


async def test_a_draining_server_takes_no_new_work() -> None:
    refusal = await refusal_for(Raises(KeyError()), draining=True)
    assert row(refusal) == (StatusCode.UNAVAILABLE, "DRAINING")


def ids(*numbers: int) -> pb.ClassifyRequest:
    return pb.ClassifyRequest(inputs=[pb.Input(token_ids=pb.TokenIds(ids=numbers))])


def test_a_full_server_refuses_work_and_still_describes_itself(held, engine) -> None:
    first = hold(held, engine)
    # One of these two runs into the other: together they are more than may wait.
    calls = [held.stub.Classify.future(texts("a", "b"), timeout=TIMEOUT) for _ in range(2)]
    refused = next(call for call in grpc_completed(calls))
    refusal = refusal_of(refused.exception())
    assert row(refusal) == (StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL")
    assert refusal.retry_seconds > 0
    assert held.stub.GetModel(pb.GetModelRequest(), timeout=TIMEOUT).model == "tiny"
    engine.gate.set()
    assert first.result().results
    assert sum(call.exception() is None for call in calls) == 1


def grpc_completed(calls: list[grpc.Future]):
    """Calls in the order they end."""
    import queue

    ended: queue.Queue[grpc.Future] = queue.Queue()
    for call in calls:
        call.add_done_callback(ended.put)
    for _ in calls:
        yield ended.get(timeout=TIMEOUT)


def test_attention_over_its_budget_says_what_it_would_have_cost(held) -> None:
    refusal = held.refused(texts("A kind film", attention=pb.AttentionOptions(heads=[0, 1, 2])))
    assert row(refusal) == (StatusCode.RESOURCE_EXHAUSTED, "ATTENTION_TOO_LARGE")
    assert int(refusal.metadata["needed_bytes"]) > int(refusal.metadata["allowed_bytes"]) == 500
    assert all(way in refusal.message for way in ("fewer", "average", "uint8"))


def test_a_caller_without_a_deadline_gets_the_servers(held, engine) -> None:
    hold(held, engine)
    with pytest.raises(grpc.RpcError) as refused:
        held.stub.Classify(texts("slow"))
    assert row(refusal_of(refused.value)) == (StatusCode.DEADLINE_EXCEEDED, "DEADLINE_PASSED")


def test_what_the_backend_cannot_do_is_a_failed_precondition(held, engine) -> None:
    engine.has_attention = False
    refusal = held.refused(texts("a", attention=pb.AttentionOptions()))
    assert row(refusal) == (StatusCode.FAILED_PRECONDITION, "UNSUPPORTED")


@pytest.mark.parametrize("mark", [RAISES, NOT_A_NUMBER])
def test_an_engine_that_breaks_is_our_fault_with_its_cause_in_the_log_alone(
    held, mark, caplog
) -> None:
    refusal = held.refused(ids(3, mark))
    assert row(refusal) == (StatusCode.INTERNAL, "INTERNAL_FAULT")
    assert "broke" not in refusal.message
    assert "the engine broke" in caplog.text or "NaN" in caplog.text
    assert held.stub.Classify(ids(3, 4), timeout=TIMEOUT).results
