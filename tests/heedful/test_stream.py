"""Many texts over one call, with both clients, against a real server and peers that misbehave."""

import asyncio
import itertools

import grpc
import pytest

from heedful import (
    AnswerError,
    AsyncClient,
    Classification,
    Client,
    DeadlineExceededError,
    InvalidArgumentError,
    UnavailableError,
)
from heedful.streaming import in_order
from heedful.v1 import classifier_pb2 as pb
from tests.conftest import SENTENCES


@pytest.fixture(params=["sync", "async"])
def ask(request):
    """ask(target, texts, ...): all answers of a stream, from either client."""

    def sync(target, texts, timeout=10.0, **options):
        with Client(target, timeout=timeout) as client:
            return list(client.classify_stream(texts, **options))

    def in_asyncio(target, texts, timeout=10.0, **options):
        async def run():
            async with AsyncClient(target, timeout=timeout) as client:
                return [found async for found in client.classify_stream(texts, **options)]

        return asyncio.run(run())

    return {"sync": sync, "async": in_asyncio}[request.param]


def test_every_text_is_answered_once_with_its_place(ask, server) -> None:
    texts = [*SENTENCES, ("Two hours", "of noise"), [2, 9, 3]] * 20
    found = dict(ask(server.address, texts))
    assert set(found) == set(range(len(texts)))
    with Client(server.address) as client:
        for index in range(8):
            assert found[index].label == client.classify(texts[index]).label


def test_a_bad_text_is_an_error_in_its_place_alone(ask, server) -> None:
    found = dict(ask(server.address, ["good", "", "\ud800", "x " * 500, "fine"]))
    assert {index for index, answer in found.items() if isinstance(answer, Classification)} == {
        0,
        4,
    }
    for index, says in ((1, "no tokens"), (2, "surrogate"), (3, "takes 41")):
        assert isinstance(found[index], InvalidArgumentError)
        assert says in str(found[index])


def test_options_reach_every_text(ask, server) -> None:
    for _, answer in ask(server.address, SENTENCES, top_k=1, attention=True):
        assert len(answer.labels) == 1
        assert answer.attention.weights.shape[0] == 2


@pytest.mark.parametrize("options", [{"max_in_flight": 0}, {"truncation": "x"}, {"timeout": -1}])
def test_what_is_wrong_for_every_text_is_refused_at_once(ask, options) -> None:
    with pytest.raises(InvalidArgumentError):
        ask("localhost:1", ["a"], **options)


def test_a_lone_string_is_refused(ask) -> None:
    with pytest.raises(InvalidArgumentError, match="several texts"):
        ask("localhost:1", "a text")


def test_no_texts_are_no_answers(ask, server) -> None:
    assert ask(server.address, []) == []


def test_texts_are_taken_as_there_is_room(server) -> None:
    taken = itertools.count()
    texts = (f"kind {next(taken)}" for _ in itertools.repeat(None))  # endless
    with Client(server.address) as client:
        stream = client.classify_stream(texts, max_in_flight=4)
        for index, answer in itertools.islice(stream, 20):
            assert answer.label
            assert index < 24
        stream.close()
        assert next(taken) <= 24
        assert client.classify("kind").label, "the line is free again"


async def test_texts_may_come_asynchronously(server) -> None:
    async def texts():
        for text in SENTENCES:
            yield text

    async with AsyncClient(server.address) as client:
        found = [index async for index, _ in client.classify_stream(texts())]
    assert sorted(found) == list(range(len(SENTENCES)))


def test_an_error_of_the_iterable_comes_out_where_it_is_used(ask, server) -> None:
    def texts():
        yield "good"
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        ask(server.address, texts())


def answer_to(request: pb.ClassifyStreamRequest) -> pb.ClassifyStreamResponse:
    labels = [pb.LabelScore(label="good", probability=1.0)]
    result = pb.Classification(labels=labels)
    response = pb.ClassifyResponse(results=[result] * len(request.request.inputs))
    return pb.ClassifyStreamResponse(id=request.id, response=response)


def test_a_full_server_is_asked_again(ask, peer) -> None:
    refused = []

    def stream(requests, context):
        for request in requests:
            if request.id == "1" and len(refused) < 2:
                refused.append(request.timeout_seconds)
                error = pb.StreamError(code=8, reason="QUEUE_FULL", retry_seconds=0.01)
                yield pb.ClassifyStreamResponse(id=request.id, error=error)
            else:
                yield answer_to(request)

    peer.stream = stream
    found = dict(ask(peer.target, ["a", "b", "c"], max_in_flight=4))
    assert all(answer.label == "good" for answer in found.values())
    assert refused[0] == pytest.approx(10.0, abs=0.5)
    assert refused[0] > refused[1], "the text's time goes on"


def test_texts_share_requests_and_a_bad_one_parts_them(ask, peer) -> None:
    sizes = []

    def stream(requests, context):
        for request in requests:
            texts = [item.text for item in request.request.inputs]
            sizes.append(len(texts))
            if "bad" in texts:
                error = pb.StreamError(code=3, message="bad", reason="INVALID_INPUT")
                yield pb.ClassifyStreamResponse(id=request.id, error=error)
            else:
                yield answer_to(request)

    peer.stream = stream
    found = dict(ask(peer.target, ["a"] * 20 + ["bad"] + ["a"] * 19))
    assert sizes == [16, 16, 8] + [1] * 16
    assert [index for index in range(40) if isinstance(found[index], Exception)] == [20]
    assert len(found) == 40


def test_a_server_that_stays_full_is_told_to_the_caller(ask, peer) -> None:
    def stream(requests, context):
        for request in requests:
            error = pb.StreamError(code=8, message="full", reason="QUEUE_FULL", retry_seconds=0.05)
            yield pb.ClassifyStreamResponse(id=request.id, error=error)

    peer.stream = stream
    ((index, error),) = ask(peer.target, ["a"], timeout=0.2)
    assert (index, error.code, error.reason) == (0, "RESOURCE_EXHAUSTED", "QUEUE_FULL")
    assert error.retry_after == pytest.approx(0.05)


def test_a_stream_that_breaks_off_says_so(ask, peer) -> None:
    def stream(requests, context):
        yield answer_to(next(requests))
        context.abort(grpc.StatusCode.UNAVAILABLE, "the server is stopping")

    peer.stream = stream
    with pytest.raises(UnavailableError, match="stopping"):
        ask(peer.target, ["a", "b"], max_in_flight=2)


@pytest.mark.parametrize("id_", ["", "7"])
def test_an_answer_that_was_not_asked_for_is_an_error(ask, peer, id_) -> None:
    def stream(requests, context):
        yield pb.ClassifyStreamResponse(id=id_)

    peer.stream = stream
    with pytest.raises(AnswerError, match="not under way"):
        ask(peer.target, ["a"])


def test_a_stream_that_ends_too_early_is_an_error(ask, peer) -> None:
    peer.stream = lambda requests, context: iter(())
    with pytest.raises(AnswerError, match="unanswered"):
        ask(peer.target, ["a"])


def test_silence_has_an_end(ask, peer) -> None:
    def stream(requests, context):
        for _ in requests:
            pass
        yield from ()

    peer.stream = stream
    with pytest.raises(DeadlineExceededError, match="nothing on the stream"):
        ask(peer.target, ["a"], timeout=0.1)


def test_in_order_keeps_early_answers_until_their_turn() -> None:
    assert list(in_order([(2, "c"), (0, "a"), (1, "b"), (3, "d")])) == ["a", "b", "c", "d"]
