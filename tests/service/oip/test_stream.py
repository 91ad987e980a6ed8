"""ModelStreamInfer: computed side by side and answered in order, bounded, and ended in order."""

import queue

import grpc
import pytest
from grpc import StatusCode

from heedful.oip import open_inference_pb2 as oip
from heedful.oip.open_inference_pb2_grpc import GRPCInferenceServiceStub
from heedful.v1.classifier_pb2_grpc import ClassifierStub
from tests.service.calls import TIMEOUT, Caller, refusal_of
from tests.service.engines import WAITS, hold
from tests.service.network.test_streams import in_queue, until
from tests.service.oip.calls import raw_ids, raw_texts, tensors


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


class Open:
    """A stream that the test feeds request by request."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.sent: queue.SimpleQueue = queue.SimpleQueue()
        stub = GRPCInferenceServiceStub(channel)
        self.call = stub.ModelStreamInfer(iter(self.sent.get, None), timeout=TIMEOUT)

    def send(self, *requests: oip.ModelInferRequest) -> None:
        for request in requests:
            self.sent.put(request)

    def end(self) -> list[str]:
        """Closes our side and gives the ids of what is still answered."""
        self.sent.put(None)
        return [answer.infer_response.id for answer in self.call]


@pytest.fixture
def bounded_server(start_server, tiny_bundle, engine):
    """A server whose engine the test holds in its hands, with room for three of a stream."""
    server = start_server(tiny_bundle, load=lambda bundle, config: engine, max_stream_requests=3)
    yield server
    engine.gate.set()
    server.stop()


@pytest.fixture
def bounded(bounded_server):
    with grpc.insecure_channel(bounded_server.address) as channel:
        yield Caller(ClassifierStub(channel), channel)


def test_a_request_is_computed_while_an_earlier_one_is_not_answered(
    bounded, bounded_server, engine
) -> None:
    stream = Open(bounded.channel)
    stream.send(raw_ids([[3, WAITS]], id="slow"), raw_texts("", id="early"))
    value = bounded_server.server.metrics.registry.get_sample_value
    refused = {"method": "ModelStreamInfer", "code": "INVALID_ARGUMENT"}
    until(lambda: value("heedful_requests_total", refused))
    engine.inner_gate.set()
    assert stream.end() == ["slow", "early"]


def test_no_more_is_read_than_may_be_unanswered(bounded, bounded_server, engine) -> None:
    first = hold(bounded, engine)
    stream = Open(bounded.channel)
    stream.send(*(raw_texts("kind", id=str(number)) for number in range(10)))
    until(lambda: in_queue(bounded_server, "queue") == 3)
    stub = GRPCInferenceServiceStub(bounded.channel)
    assert stub.ServerLive(oip.ServerLiveRequest(), timeout=TIMEOUT).live
    assert in_queue(bounded_server, "queue") == 3
    engine.gate.set()
    assert first.result().results
    assert stream.end() == [str(number) for number in range(10)]


def test_attention_and_plain_requests_are_answered_in_one_order(server) -> None:
    with grpc.insecure_channel(server.address) as channel:
        stream = Open(channel)
        for number in range(30):
            outputs = ["attentions"] if number % 3 else []
            stream.send(raw_ids([[2, 9 + number, 3]], outputs=outputs, id=str(number)))
        assert stream.end() == [str(number) for number in range(30)]


def test_a_stream_that_is_left_frees_all_that_waits(bounded, bounded_server, engine) -> None:
    first = hold(bounded, engine)
    stream = Open(bounded.channel)
    stream.send(raw_texts("kind"), raw_texts("film"))
    until(lambda: in_queue(bounded_server, "queue") == 2)
    stream.call.cancel()
    until(lambda: in_queue(bounded_server, "queue") == 0)
    engine.gate.set()
    assert first.result().results


def test_a_stopping_server_answers_all_that_it_has_read(bounded, bounded_server, engine) -> None:
    first = hold(bounded, engine)
    stream = Open(bounded.channel)
    stream.send(raw_texts("kind", id="1"), raw_texts("film", id="2"))
    until(lambda: in_queue(bounded_server, "queue") == 2)
    bounded_server.begin_stop()
    engine.gate.set()
    assert [next(stream.call).infer_response.id for _ in range(2)] == ["1", "2"]
    with pytest.raises(grpc.RpcError) as ended:
        next(stream.call)
    assert refusal_of(ended.value).reason == "DRAINING"
    assert first.result().results
    stream.send(None)
    assert bounded_server.stop()
