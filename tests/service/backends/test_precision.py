"""An int8 bundle in service: what callers are told, and what they get."""

import grpc
import pytest

from heedful.v1 import classifier_pb2 as pb
from heedful.v1.classifier_pb2_grpc import ClassifierStub
from tests.conftest import SENTENCES
from tests.service.calls import TIMEOUT, Caller


@pytest.fixture(scope="module")
def int8_caller(start_server, int8_bundle):
    server = start_server(int8_bundle, backend="onnx")
    with grpc.insecure_channel(server.address) as channel:
        yield Caller(ClassifierStub(channel), channel)


def test_answers_and_model_information_say_int8(int8_caller) -> None:
    model = int8_caller.stub.GetModel(pb.GetModelRequest(), timeout=TIMEOUT)
    assert (model.precision, model.attention) == ("int8", True)
    assert int8_caller.classify("A kind film").precision == "int8"


def test_logits_are_the_same_alone_in_company_and_with_attention(int8_caller) -> None:
    def logits(result):
        return {score.index: score.logit for score in result.labels}

    asked = pb.AttentionOptions()
    together = int8_caller.classify(*SENTENCES).results
    with_attention = int8_caller.classify(*SENTENCES, attention=asked).results
    for text, one, other in zip(SENTENCES, together, with_attention, strict=True):
        (alone,) = int8_caller.classify(text).results
        assert logits(one) == pytest.approx(logits(alone), abs=1e-6)
        assert logits(one) == pytest.approx(logits(other), abs=1e-6)
        assert other.attention.data
