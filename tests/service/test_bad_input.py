"""Everything a caller can get wrong: a status that says what to do, and a server that lives."""

import grpc
import numpy as np
import pytest
from grpc import StatusCode

from heedful.v1 import classifier_pb2 as pb
from heedful.v1.classifier_pb2_grpc import ClassifierStub
from tests.service.calls import Caller, texts

INVALID = (StatusCode.INVALID_ARGUMENT, "INVALID_INPUT")


def attention(**fields) -> pb.ClassifyRequest:
    return texts("A kind film", attention=pb.AttentionOptions(**fields))


@pytest.fixture(autouse=True)
def still_answers(caller: Caller):
    """After each bad request the server answers a good one."""
    yield
    assert caller.classify("A kind film").results


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (pb.ClassifyRequest(), "no inputs"),
        (pb.ClassifyRequest(inputs=[pb.Input()]), "input 0 is unset"),
        (texts(""), "no tokens"),
        (texts(" \t\n "), "no tokens"),
        (texts("\0\0"), "no tokens"),
        (texts("fine", ""), "input 1: the text has no tokens"),
        (texts(*["a"] * 65), "65 inputs and at most 64"),
        (texts("a " * 500), "502 tokens and the model takes 41"),
        (texts("a", top_k=-1), "top_k is -1"),
        (texts("a", truncation=9), "truncation 9 is not known: choose from TRUNCATION_ERROR"),
        (texts("a", target_label="无"), "no label '无': the labels are 'bad', 'fair', 'good'"),
        (attention(layers=[2]), "layer 2 does not exist: choose from 0 to 1"),
        (attention(heads=[-1]), "head -1 does not exist: choose from 0 to 4"),
        (attention(heads=[1, 1]), "head 1 is asked for twice"),
        (attention(queries=[400]), "query 400 is outside input 0"),
        (attention(queries=[-2]), "query -2 does not exist"),
        (attention(reduction=7), "reduction 7 is not known"),
        (attention(encoding=8), "attention encoding 8 is not known"),
        (pb.ClassifyRequest(inputs=[pb.Input(token_ids=pb.TokenIds())]), "token ids are empty"),
        (
            pb.ClassifyRequest(inputs=[pb.Input(token_ids=pb.TokenIds(ids=[5, -1]))]),
            "token id -1 at position 1",
        ),
        (
            pb.ClassifyRequest(inputs=[pb.Input(token_ids=pb.TokenIds(ids=[99999]))]),
            "token id 99999",
        ),
        (
            pb.ClassifyRequest(inputs=[pb.Input(token_ids=pb.TokenIds(ids=[3] * 1_000_000))]),
            "1000000 token ids were given and the model takes 41",
        ),
    ],
)
def test_a_request_that_cannot_be_used_is_told_why(caller: Caller, request_, says) -> None:
    refusal = caller.refused(request_)
    assert (refusal.code, refusal.reason) == INVALID
    assert says in refusal.message


@pytest.mark.parametrize("method", ["Classify", "Tokenize", "GetModel"])
def test_malformed_bytes_are_the_callers_error(caller: Caller, method) -> None:
    for data in (b"\xff\xff\xff\xff", b"\x0a\x7f", b"\x0a\xff\xff\xff\xff\x0f"):
        refusal = caller.refused(data, method)
        assert (refusal.code, refusal.reason) == INVALID
        assert "malformed" in refusal.message


def test_a_text_that_is_not_utf8_is_the_callers_error(caller: Caller) -> None:
    surrogate = b"\xed\xa0\x80"
    message = b"\x0a\x05\x0a\x03" + surrogate
    assert "not UTF-8" in caller.refused(message).message


def test_ten_megabytes_of_text_are_refused_before_tokenizing(caller: Caller) -> None:
    refusal = caller.refused(texts("great film " * 1_000_000))
    assert (refusal.code, refusal.reason) == INVALID
    assert "over 1048576 bytes" in refusal.message


def test_bytes_of_a_text_are_counted_and_not_characters(start_server, exported_bundle) -> None:
    server = start_server(exported_bundle, max_text_bytes=30)
    with grpc.insecure_channel(server.address) as channel:
        caller = Caller(ClassifierStub(channel), channel)
        assert caller.classify("房" * 10).results
        assert "over 30 bytes" in caller.refused(texts("房" * 11)).message


def test_a_very_long_text_can_be_truncated_and_says_what_it_lost(caller: Caller) -> None:
    (result,) = caller.classify("bad " * 30_000, truncation=pb.TRUNCATION_HEAD_TAIL).results
    assert result.truncated.lost_tokens > 29_000


@pytest.mark.parametrize(
    "text",
    [
        "a\0b",
        "\u05e9\u05dc\u05d5\u05dd \u0637\u064a\u0628",  # right to left
        "\u202egood\u202c",  # right to left by force
        "\U0001f600\U0001f469\u200d\U0001f467",  # emoji, two of them joined
        "e\u0301\u0301",  # combining marks
        "x" * 5000,
    ],
)
def test_odd_text_is_answered_with_honest_probabilities(caller: Caller, text) -> None:
    (result,) = caller.classify(text, truncation=pb.TRUNCATION_HEAD).results
    assert np.isclose(sum(score.probability for score in result.labels), 1.0)


@pytest.mark.parametrize("method", ["Classify", "Tokenize", "GetModel"])
def test_what_is_not_served_is_not_found_and_what_is_gets_named(caller: Caller, method) -> None:
    request_type = {
        "Classify": pb.ClassifyRequest,
        "Tokenize": pb.TokenizeRequest,
        "GetModel": pb.GetModelRequest,
    }[method]
    refusal = caller.refused(request_type(model="another" * 100), method)
    assert (refusal.code, refusal.reason) == (StatusCode.NOT_FOUND, "NOT_SERVED")
    assert "ask for 'tiny'" in refusal.message
    assert caller.refused(request_type(version="7"), method).code is StatusCode.NOT_FOUND
