"""Many requests over one call: answered as they finish, bounded, and ended with nothing lost."""

import queue
import time

import grpc
import pytest
from grpc import StatusCode

from heedful.v1 import classifier_pb2 as pb
from heedful.v1.classifier_pb2_grpc import ClassifierStub
from tests.conftest import SENTENCES
from tests.service.calls import TIMEOUT, Caller, refusal_of, texts
from tests.service.engines import RAISES, WAITS, hold
from tests.service.scheduling.test_departures import departed


def one(id_: str, request: pb.ClassifyRequest, **fields) -> pb.ClassifyStreamRequest:
    return pb.ClassifyStreamRequest(id=id_, request=request, **fields)


def ids(*numbers: int) -> pb.ClassifyRequest:
    return pb.ClassifyRequest(inputs=[pb.Input(token_ids=pb.TokenIds(ids=numbers))])


class Open:
    """A stream that the test feeds message by message."""

    def __init__(self, caller, timeout: float | None = TIMEOUT) -> None:
        self.sent: queue.SimpleQueue = queue.SimpleQueue()
        method = caller.channel.stream_stream(
            "/heedful.v1.Classifier/ClassifyStream",
            request_serializer=lambda m: m if isinstance(m, bytes) else m.SerializeToString(),
            response_deserializer=pb.ClassifyStreamResponse.FromString,
        )
        self.call = method(iter(self.sent.get, None), timeout=timeout)

    def send(self, *messages) -> None:
        for message in messages:
            self.sent.put(message)

    def end(self) -> dict[str, pb.ClassifyStreamResponse]:
        """Closes our side and gives what is still answered, by id."""
        self.sent.put(None)
        return {answer.id: answer for answer in self.call}


def test_answers_in_a_stream_are_those_of_single_calls_and_carry_their_ids(caller) -> None:
    stream = Open(caller)
    stream.send(*(one(f"n{number}", texts(text)) for number, text in enumerate(SENTENCES * 10)))
    answers = stream.end()
    assert stream.call.code() is StatusCode.OK
    assert len(answers) == len(SENTENCES) * 10
    for number, text in enumerate(SENTENCES):
        (alone,) = caller.classify(text).results
        (found,) = answers[f"n{number}"].response.results
        assert [score.label for score in found.labels] == [score.label for score in alone.labels]
        assert [score.logit for score in found.labels] == pytest.approx(
            [score.logit for score in alone.labels], abs=1e-5
        )
    assert answers["n0"].response.model == "tiny"
    assert answers["n0"].response.timings.total_seconds > 0


def test_attention_rides_along_in_a_stream(caller) -> None:
    request = texts(SENTENCES[0], attention=pb.AttentionOptions())
    stream = Open(caller)
    stream.send(*(one(str(number), request) for number in range(9)))
    (alone,) = caller.classify(SENTENCES[0], attention=pb.AttentionOptions()).results
    for answer in stream.end().values():
        assert answer.response.results[0].attention.shape == alone.attention.shape


def test_an_answer_does_not_wait_for_an_earlier_request(held, engine) -> None:
    stream = Open(held)
    stream.send(one("bad", texts("")), one("slow", ids(3, WAITS)))
    assert next(stream.call).id == "bad"
    stream.send(one("early", texts("", "")))
    assert next(stream.call).id == "early"
    engine.inner_gate.set()
    assert next(stream.call).id == "slow"
    assert not stream.end()


@pytest.mark.parametrize(
    ("request_", "code", "reason", "says"),
    [
        (texts(""), StatusCode.INVALID_ARGUMENT, "INVALID_INPUT", "no tokens"),
        (texts("a", model="x"), StatusCode.NOT_FOUND, "NOT_SERVED", "not served"),
        (ids(3, RAISES), StatusCode.INTERNAL, "INTERNAL_FAULT", "log"),
    ],
)
def test_an_error_is_the_answer_of_its_request_and_leaves_the_stream_open(
    held, request_, code, reason, says
) -> None:
    stream = Open(held)
    stream.send(one("1", request_))
    error = next(stream.call).error
    assert (error.code, error.reason) == (code.value[0], reason)
    assert says in error.message
    assert not error.retry_seconds
    stream.send(one("2", texts("kind")))
    assert stream.end()["2"].response.results


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (one("x" * 257, texts("a")), "the id is over 256 characters"),
        (one("x", texts("a"), timeout_seconds=-1), "timeout_seconds is -1.0"),
        (one("x", texts("a"), timeout_seconds=float("nan")), "timeout_seconds is nan"),
        (pb.ClassifyStreamRequest(), "no inputs"),
    ],
)
def test_a_message_that_cannot_be_used_is_told_why(held, message, says) -> None:
    stream = Open(held)
    stream.send(message)
    assert says in next(stream.call).error.message


def test_malformed_bytes_end_the_stream_after_what_came_before_is_answered(held) -> None:
    stream = Open(held)
    stream.send(one("1", texts("kind")), b"\xff\xff\xff")
    assert next(stream.call).response.results
    with pytest.raises(grpc.RpcError) as refused:
        next(stream.call)
    refusal = refusal_of(refused.value)
    assert (refusal.code, refusal.reason) == (StatusCode.INVALID_ARGUMENT, "INVALID_INPUT")
    assert held.classify("kind").results


def test_a_full_server_answers_in_the_stream_with_the_time_to_come_back(held, engine) -> None:
    first = hold(held, engine)
    stream = Open(held)
    stream.send(one("1", texts("a", "b")), one("2", texts("c")))
    answer = next(stream.call)
    assert answer.error.reason == "QUEUE_FULL"
    assert answer.error.retry_seconds > 0
    engine.gate.set()
    assert first.result().results
    assert len(stream.end()) == 1


def test_a_request_of_a_stream_has_a_deadline_of_its_own(held, engine) -> None:
    hold(held, engine)
    stream = Open(held)
    stream.send(one("late", texts("a"), timeout_seconds=0.05))
    assert next(stream.call).error.reason == "DEADLINE_PASSED"
    engine.gate.set()
    stream.send(one("next", texts("kind")))
    assert stream.end()["next"].response.results


def in_queue(server, what: str) -> float:
    return server.server.metrics.registry.get_sample_value(f"heedful_{what}_texts")


def until(condition) -> None:
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize("way", ["cancels", "is late"])
def test_a_stream_that_is_left_frees_all_that_waits(held, held_server, engine, way) -> None:
    first = hold(held, engine)
    stream = Open(held, timeout=0.3 if way == "is late" else TIMEOUT)
    stream.send(*(one(str(number), texts("房间"), timeout_seconds=60) for number in range(2)))
    until(lambda: in_queue(held_server, "queue") == 2)
    if way == "cancels":
        stream.call.cancel()
    assert stream.call.code() in {StatusCode.CANCELLED, StatusCode.DEADLINE_EXCEEDED}
    until(lambda: in_queue(held_server, "queue") == 0)
    assert departed(held_server, "queued") == 2 or way == "is late"
    engine.gate.set()
    assert first.result().results


def test_no_more_is_read_than_may_be_unanswered(start_server, tiny_bundle, engine) -> None:
    server = start_server(tiny_bundle, load=lambda bundle, config: engine, max_stream_requests=3)
    with grpc.insecure_channel(server.address) as channel:
        caller = Caller(ClassifierStub(channel), channel)
        hold(caller, engine)
        stream = Open(caller)
        stream.send(*(one(str(number), texts("kind")) for number in range(10)))
        until(lambda: in_queue(server, "queue") == 3)
        assert caller.stub.GetModel(pb.GetModelRequest(), timeout=TIMEOUT).model
        assert in_queue(server, "queue") == 3
        engine.gate.set()
        assert len(stream.end()) == 10


def test_a_draining_server_answers_what_it_has_read_and_says_so(held, held_server, engine) -> None:
    first = hold(held, engine)
    stream = Open(held)
    stream.send(one("accepted", texts("kind"), timeout_seconds=60))
    until(lambda: in_queue(held_server, "queue") == 1)
    held_server.begin_stop()
    until(lambda: held_server.server._border.draining)
    stream.send(one("late", texts("kind")))
    engine.gate.set()
    answer = next(stream.call)
    assert (answer.id, len(answer.response.results)) == ("accepted", 1)
    with pytest.raises(grpc.RpcError) as refused:
        next(stream.call)
    refusal = refusal_of(refused.value)
    assert (refusal.code, refusal.reason) == (StatusCode.UNAVAILABLE, "DRAINING")
    assert first.result().results
    assert held_server.stop()


def test_requests_of_a_stream_are_counted_one_by_one(held, held_server) -> None:
    stream = Open(held)
    stream.send(one("1", texts("kind")), one("2", texts("")))
    stream.end()
    value = held_server.server.metrics.registry.get_sample_value
    for code in ("OK", "INVALID_ARGUMENT"):
        labels = {"method": "ClassifyStream", "code": code}
        assert value("heedful_requests_total", labels) == 1
