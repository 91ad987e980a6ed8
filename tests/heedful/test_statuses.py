"""A peer's statuses as errors that say what a caller can do."""

import copy
import threading

import grpc
import numpy as np
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

import heedful
from heedful import AsyncClient, Client
from heedful.v1 import classifier_pb2 as pb

KINDS = {
    grpc.StatusCode.INVALID_ARGUMENT: heedful.InvalidArgumentError,
    grpc.StatusCode.NOT_FOUND: heedful.NotFoundError,
    grpc.StatusCode.FAILED_PRECONDITION: heedful.FailedPreconditionError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: heedful.ResourceExhaustedError,
    grpc.StatusCode.DEADLINE_EXCEEDED: heedful.DeadlineExceededError,
    grpc.StatusCode.UNAVAILABLE: heedful.UnavailableError,
    grpc.StatusCode.INTERNAL: heedful.InternalError,
    grpc.StatusCode.PERMISSION_DENIED: heedful.RequestError,
}


def refuse_with(code, details=b""):
    """An answer that ends the call with a status and what rides in its metadata."""

    def answer(request, context):
        if details:
            context.set_trailing_metadata((("grpc-status-details-bin", details),))
        context.abort(code, "what is wrong and what to do")

    return answer


def rich_status(*details) -> bytes:
    status = status_pb2.Status(code=8, message="full")
    for detail in details:
        box = any_pb2.Any()
        box.Pack(detail)
        status.details.append(box)
    return status.SerializeToString()


def one_label(num_texts: int = 1, **more) -> pb.ClassifyResponse:
    result = pb.Classification(labels=[pb.LabelScore(label="good", probability=1.0)], **more)
    return pb.ClassifyResponse(results=[result] * num_texts)


@pytest.mark.parametrize("code", KINDS, ids=lambda code: code.name)
def test_each_status_is_an_error_of_its_own(peer, code) -> None:
    peer.answer = refuse_with(code)
    with Client(peer.target) as client, pytest.raises(heedful.HeedfulError) as caught:
        client.classify("a")
    assert type(caught.value) is KINDS[code]
    assert caught.value.code == code.name
    assert "what is wrong and what to do" in str(caught.value)
    assert (caught.value.reason, caught.value.retry_after) == ("", None)


async def test_a_refusal_tells_when_to_try_again_and_why(peer) -> None:
    retry = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(nanos=250_000_000))
    info = error_details_pb2.ErrorInfo(reason="QUEUE_FULL", domain="heedful", metadata={"a": "b"})
    other = error_details_pb2.DebugInfo(detail="not for programs")
    details = rich_status(other, retry, info)
    peer.answer = refuse_with(grpc.StatusCode.RESOURCE_EXHAUSTED, details)
    with Client(peer.target) as client, pytest.raises(heedful.ResourceExhaustedError) as caught:
        client.classify("a")
    assert (caught.value.reason, caught.value.retry_after) == ("QUEUE_FULL", 0.25)
    async with AsyncClient(peer.target) as client:
        with pytest.raises(heedful.ResourceExhaustedError) as caught:
            await client.classify("a")
    assert (caught.value.reason, caught.value.retry_after) == ("QUEUE_FULL", 0.25)


def test_details_that_are_no_message_leave_the_plain_status(peer) -> None:
    peer.answer = refuse_with(grpc.StatusCode.RESOURCE_EXHAUSTED, b"\xff\xff\xff")
    with Client(peer.target) as client, pytest.raises(heedful.ResourceExhaustedError) as caught:
        client.classify("a")
    assert (caught.value.reason, caught.value.retry_after) == ("", None)


def test_an_error_comes_whole_out_of_a_process_pool() -> None:
    error = heedful.ResourceExhaustedError("X", "full", reason="QUEUE_FULL", retry_after=0.5)
    again = copy.copy(error)
    assert type(again) is heedful.ResourceExhaustedError
    assert (again.code, str(again), again.reason, again.retry_after) == (
        "X",
        "full",
        "QUEUE_FULL",
        0.5,
    )


def test_every_call_ends_by_itself(peer) -> None:
    done = threading.Event()
    peer.answer = lambda request, context: done.wait(30) and None
    with Client(peer.target, timeout=0.2) as client:
        with pytest.raises(heedful.DeadlineExceededError, match="did not answer in time"):
            client.classify("a")
        done.set()


def test_answers_over_grpcs_own_limit_of_4_mib_arrive(peer) -> None:
    size = 1100
    weights = np.full((1, 1, size, size), 1 / size, np.float32)
    attention = pb.Attention(
        layers=[0], heads=[0], queries=range(size), shape=weights.shape, data=weights.tobytes()
    )
    tokens = [pb.Token(piece="a")] * size
    peer.answer = lambda request, context: one_label(attention=attention, tokens=tokens)
    with Client(peer.target) as client:
        result = client.classify([1] * size, attention=True)
    assert np.array_equal(result.attention.weights, weights)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (one_label(2), "answered 2 inputs where 1 were sent"),
        (pb.ClassifyResponse(results=[pb.Classification()]), "no label"),
        (one_label(attention=pb.Attention(shape=[1, 1, 1, 1])), "has shape"),
    ],
)
def test_an_answer_that_contradicts_itself_is_refused(peer, answer, says) -> None:
    peer.answer = lambda request, context: answer
    with Client(peer.target) as client, pytest.raises(heedful.AnswerError, match=says):
        client.classify("a")


async def test_waiting_ends_when_the_server_becomes_ready(peer) -> None:
    peer.set_serving(False)
    async with AsyncClient(peer.target) as waiting:
        assert not await waiting.is_ready()
        with pytest.raises(heedful.DeadlineExceededError, match=r"within 0\.2 s: it is there"):
            await waiting.wait_until_ready(0.2)
    with Client(peer.target) as client:
        assert not client.is_ready()
        with pytest.raises(heedful.DeadlineExceededError, match=r"within 0\.2 s: it is there"):
            client.wait_until_ready(0.2)
        threading.Timer(0.1, peer.set_serving, [True]).start()
        client.wait_until_ready(30)
        assert client.is_ready()
    async with AsyncClient(peer.target) as waiting:
        await waiting.wait_until_ready(30)
        assert await waiting.is_ready()


async def test_nobody_there_is_said_at_once_and_with_the_address() -> None:
    with Client("localhost:1", timeout=30) as client:
        assert not client.is_ready()
        with pytest.raises(heedful.UnavailableError, match="no server answers at localhost:1"):
            client.classify("a")
        with pytest.raises(heedful.DeadlineExceededError, match=r"not ready.*: no server answers"):
            client.wait_until_ready(0.3)
    async with AsyncClient("localhost:1") as client:
        with pytest.raises(heedful.UnavailableError, match="no server answers at localhost:1"):
            await client.classify("a")


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
def test_a_timeout_without_an_end_is_refused(timeout) -> None:
    with pytest.raises(ValueError, match="positive number of seconds"):
        Client("localhost:1", timeout=timeout)
    with Client("localhost:1") as client, pytest.raises(ValueError, match="positive number"):
        client.classify("a", timeout=timeout)
