"""ModelStreamInfer: answers in order, errors that end one request, and the end of a server."""

import queue

import grpc
import pytest
from grpc import StatusCode

from heedful.oip import open_inference_pb2 as oip
from heedful.oip.open_inference_pb2_grpc import GRPCInferenceServiceStub
from tests.service.calls import TIMEOUT, refusal_of
from tests.service.engines import hold
from tests.service.oip.calls import raw_texts, tensors


def test_answers_come_in_order_and_an_error_ends_its_request_only(peer) -> None:
    requests = [
        raw_texts("kind", id="first"),
        raw_texts("kind", id="second", outputs=["embedding"]),
        raw_texts("a film", id="third", model_name="other"),
        raw_texts("a film", id="fourth"),
    ]
    answers = list(peer.stub.ModelStreamInfer(iter(requests), timeout=TIMEOUT))
    assert [answer.infer_response.id for answer in answers] == [r.id for r in requests]
    assert [bool(answer.error_message) for answer in answers] == [False, True, True, False]
    assert "choose from logits" in answers[1].error_message
    assert "not served here" in answers[2].error_message
    alone = peer.infer(raw_texts("a film"))
    assert tensors(answers[3].infer_response)["labels"] == tensors(alone)["labels"]


def test_bytes_that_are_no_request_end_the_stream_after_what_was_before(server) -> None:
    with grpc.insecure_channel(server.address) as channel:
        call = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
        stream = call(iter([raw_texts("kind").SerializeToString(), b"\xff"]), timeout=TIMEOUT)
        assert oip.ModelStreamInferResponse.FromString(next(stream)).infer_response.outputs
        with pytest.raises(grpc.RpcError) as refused:
            next(stream)
    assert refusal_of(refused.value).code is StatusCode.INVALID_ARGUMENT


def test_a_stopping_server_answers_what_it_read_and_ends_the_stream(
    held, held_server, engine
) -> None:
    first = hold(held, engine)
    sent: queue.Queue[oip.ModelInferRequest] = queue.Queue()
    stub = GRPCInferenceServiceStub(held.channel)
    stream = stub.ModelStreamInfer(iter(sent.get, None), timeout=TIMEOUT)
    engine.gate.set()
    assert first.result().results
    sent.put(raw_texts("kind"))
    assert not next(stream).error_message
    held_server.begin_stop()
    with pytest.raises(grpc.RpcError) as ended:
        next(stream)
    assert refusal_of(ended.value).reason == "DRAINING"
    sent.put(None)
    assert held_server.stop()
