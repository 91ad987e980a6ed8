"""A guess of tokens from characters: worked by hand, and used before anything is tokenized."""

import time

import grpc
import pytest

from heedful.v1.classifier_pb2_grpc import ClassifierStub
from model.tokenizer import Encoding
from service.request.guessing import TokenGuess
from tests.service.calls import Caller, texts
from tests.service.engines import GoldenEngine, hold


class SlowEngine(GoldenEngine):
    """Takes 10 ms a token, so that 20 tokens are 0.2 s."""

    def run(self, rows):
        time.sleep(0.01 * rows.num_tokens)
        return super().run(rows)


def of(num_tokens: int) -> Encoding:
    return Encoding([7] * min(num_tokens, 40), num_tokens, 0, list)


def test_a_text_has_as_many_tokens_a_character_as_those_before_it() -> None:
    guess = TokenGuess(max_tokens=40)
    assert guess.lengths(["x" * 400]) == [1]  # nothing is known yet
    guess.learn(["x" * 10, ("x" * 10, "x" * 10)], [of(4), of(11)])
    assert guess.lengths(["x" * 20, "x", "", ("x" * 20, "x" * 10)]) == [10, 1, 1, 15]
    assert guess.lengths(["x" * 400]) == [40]  # cut, or refused


def test_token_ids_are_counted_and_teach_nothing() -> None:
    guess = TokenGuess(max_tokens=40)
    guess.learn([[5, 6, 7]], [of(3)])
    assert guess.lengths(["x" * 20, [5, 6, 7], [], [5] * 41]) == [1, 3, 1, 40]


def test_what_was_cut_counts_whole_and_what_is_long_ago_little() -> None:
    guess = TokenGuess(max_tokens=40)
    for _ in range(1000):
        guess.learn(["x" * 100], [of(100)])
    assert guess.lengths(["x" * 20]) == [20]
    for _ in range(1000):
        guess.learn(["x" * 100], [of(50)])
    assert guess.lengths(["x" * 20]) == [10]


def test_a_text_too_long_for_its_deadline_is_refused_before_it_is_tokenized(
    start_server, tiny_bundle
) -> None:
    engine = SlowEngine(tiny_bundle)
    server = start_server(tiny_bundle, load=lambda bundle, config: engine)
    counted = server.server.metrics.registry.get_sample_value
    with grpc.insecure_channel(server.address) as channel:
        peer = Caller(ClassifierStub(channel), channel)
        peer.classify("a kind film")
        holding = hold(peer, engine)
        with pytest.raises(grpc.RpcError) as refused:
            peer.stub.Classify(texts("kind " * 30), timeout=0.2)
        engine.gate.set()
        assert holding.result().results
    assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert counted("heedful_departed_total", {"stage": "door"}) == 1
