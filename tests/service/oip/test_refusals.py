"""What a caller of the Open Inference Protocol can get wrong, and what it is told."""

import struct

import grpc
import numpy as np
import pytest
from grpc import StatusCode

from heedful.oip import open_inference_pb2 as oip
from heedful.oip.open_inference_pb2_grpc import GRPCInferenceServiceStub
from tests.service.calls import TIMEOUT, refusal_of
from tests.service.engines import NOT_A_NUMBER, hold
from tests.service.network.test_status import grpc_completed
from tests.service.oip.calls import Peer, raw_ids, raw_texts, tensors


def raw(data: bytes, shape, *, name="text", datatype="BYTES") -> oip.ModelInferRequest:
    request = oip.ModelInferRequest(raw_input_contents=[data])
    request.inputs.add(name=name, datatype=datatype, shape=shape)
    return request


def ids(data: bytes, shape, datatype="INT64") -> oip.ModelInferRequest:
    return raw(data, shape, name="input_ids", datatype=datatype)


def changed(change, *texts: str) -> oip.ModelInferRequest:
    request = raw_texts(*(texts or ("kind",)))
    change(request)
    return request


def parameter(name: str, **value) -> oip.ModelInferRequest:
    return changed(lambda request: request.parameters[name].MergeFrom(oip.InferParameter(**value)))


ONE = struct.pack("<I", 4) + b"kind"
HUGE = 2**62
WRONG = {
    "no input": (oip.ModelInferRequest(), "exactly one input"),
    "another input": (raw(ONE, [1], name="words"), "exactly one input"),
    "two inputs": (changed(lambda r: r.inputs.append(r.inputs[0])), "exactly one input"),
    "text as FP32": (raw(b"\0" * 4, [1], datatype="FP32"), "datatype"),
    "text as INT64": (raw(b"\0" * 8, [1], datatype="INT64"), "must be of datatype BYTES"),
    "ids as BYTES": (ids(ONE, [1, 1], "BYTES"), "must be of datatype INT64"),
    "three axes": (raw(ONE, [1, 1, 1]), "[n] or [n,1]"),
    "no axes": (raw(ONE, []), "[n] or [n,1]"),
    "two columns": (raw(ONE * 2, [1, 2]), "[n] or [n,1]"),
    "many axes": (raw(ONE, [1] * 1000), "axes"),
    "a negative axis": (raw(ONE, [-1]), "length -1"),
    "two negative axes": (ids(b"\0" * 8, [-1, -1]), "length -1"),
    "no texts": (raw(b"", [0]), "raw_input_contents|no inputs"),
    "no ids": (ids(b"", [3, 0]), "0 token ids|raw_input_contents"),
    "more texts than came": (raw(ONE, [2]), "do not fit|end before"),
    "fewer texts than came": (raw(ONE + ONE, [1]), "left over"),
    "a text longer than the message": (raw(struct.pack("<I", 1 << 30) + b"a", [1]), "claims"),
    "a shape beyond memory": (raw(ONE, [HUGE]), "do not fit"),
    "an overflowing shape": (ids(b"\0" * 8, [HUGE, HUGE]), "takes"),
    "half an id": (ids(b"\0" * 4, [1]), "takes 8 bytes"),
    "too many ids": (ids(b"\0" * 8 * 99, [1, 99]), "takes 1 to"),
    "a negative id": (raw_ids([[2, -1, 3]]), "token id -1"),
    "an id over the vocabulary": (raw_ids([[2, 2**40, 3]]), "outside 0 to"),
    "text that is not UTF-8": (raw(struct.pack("<I", 2) + b"\xff\xfe", [1]), "not UTF-8"),
    "a text without tokens": (raw_texts(""), ""),
    "another output": (raw_texts("kind", outputs=["embedding"]), "choose from logits"),
    "an output twice": (raw_texts("kind", outputs=["logits"] * 2), "twice"),
    "raw and typed": (
        changed(lambda r: r.inputs[0].contents.bytes_contents.append(b"kind")),
        "one of the two",
    ),
    "more raw than inputs": (changed(lambda r: r.raw_input_contents.append(b"")), "one for each"),
    "shared memory": (
        changed(lambda r: r.inputs[0].parameters["shared_memory_region"].SetInParent()),
        "without parameters",
    ),
    "an unknown parameter": (parameter("truncate", bool_param=True), "known are timeout"),
    "an unknown truncation": (parameter("truncation", string_param="middle"), "head_tail"),
    "a truncation that is no word": (parameter("truncation", int64_param=1), "choose from"),
    "a negative timeout": (parameter("timeout", int64_param=-1), "0 or more"),
    "a timeout that is a word": (parameter("timeout", string_param="1"), "whole number"),
    "a parameter without a value": (parameter("top_k"), "has no value"),
    "too many texts": (raw_texts(*["kind"] * 65), "at most 64"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_used_is_said_plainly(peer, wrong) -> None:
    request, message = WRONG[wrong]
    refusal = peer.refused(request)
    assert (refusal.code, refusal.reason) == (StatusCode.INVALID_ARGUMENT, "INVALID_INPUT")
    assert any(part in refusal.message for part in message.split("|")), refusal.message
    assert len(refusal.message) < 400


def test_classes_of_anything_but_scores_are_refused(peer) -> None:
    request = raw_texts("kind", outputs=["labels"])
    request.outputs[0].parameters["classification"].int64_param = 1
    assert "none is known" in peer.refused(request).message


def test_typed_elements_must_be_in_the_field_of_their_datatype(peer) -> None:
    request = oip.ModelInferRequest()
    tensor = request.inputs.add(name="input_ids", datatype="INT64", shape=[1, 1])
    tensor.contents.int_contents.append(2)
    assert "int64_contents" in peer.refused(request).message
    request.inputs[0].contents.Clear()
    request.inputs[0].contents.int64_contents.extend([2, 3])
    assert "1 elements and 2 came" in peer.refused(request).message


@pytest.mark.parametrize(("name", "version"), [("other", ""), ("", "0" * 12), ("tiny", "1")])
def test_a_model_that_is_not_served_is_not_found(peer, name, version) -> None:
    refusal = peer.refused(raw_texts("kind", model_name=name, model_version=version))
    assert refusal.code is StatusCode.NOT_FOUND
    for method in ("ModelMetadata", "ModelConfig"):
        request = getattr(oip, f"{method}Request")(name=name, version=version)
        assert peer.refused(request, method).code is StatusCode.NOT_FOUND


def test_models_cannot_be_changed_by_calls_unless_that_is_allowed(peer) -> None:
    for method in ("RepositoryModelLoad", "RepositoryModelUnload"):
        request = getattr(oip, f"{method}Request")(model_name="tiny")
        assert peer.refused(request, method).reason == "ADMIN_OFF"
    assert tensors(peer.infer(raw_texts("kind")))


@pytest.fixture
def held_peer(held_server):
    with grpc.insecure_channel(held_server.address) as channel:
        yield Peer(GRPCInferenceServiceStub(channel))


def test_a_timeout_in_microseconds_is_a_deadline(held, held_peer, engine) -> None:
    first = hold(held, engine)
    request = raw_texts("kind")
    request.parameters["timeout"].int64_param = 50_000
    refusal = held_peer.refused(request)
    assert refusal.code is StatusCode.DEADLINE_EXCEEDED
    engine.gate.set()
    assert first.result().results


def test_a_full_server_refuses_inference_and_still_describes_itself(
    held, held_peer, engine
) -> None:
    hold(held, engine)
    # One of these two runs into the other: together they are more than may wait.
    request = raw_texts("a", "b")
    calls = [held_peer.stub.ModelInfer.future(request, timeout=TIMEOUT) for _ in range(2)]
    refusal = refusal_of(next(grpc_completed(calls)).exception())
    assert (refusal.code, refusal.reason) == (StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL")
    assert held_peer.stub.ModelMetadata(oip.ModelMetadataRequest(), timeout=TIMEOUT).name == "tiny"
    assert held_peer.stub.ServerLive(oip.ServerLiveRequest(), timeout=TIMEOUT).live
    engine.gate.set()
    assert sum(call.exception(timeout=TIMEOUT) is None for call in calls) == 1


def test_attentions_over_the_budget_are_refused_with_their_price(held_peer) -> None:
    refusal = held_peer.refused(raw_texts("A kind film", outputs=["attentions"]))
    assert refusal.reason == "ATTENTION_TOO_LARGE"


def test_a_backend_without_attention_says_so_in_metadata_and_refuses(held_peer, engine) -> None:
    engine.has_attention = False
    metadata = held_peer.stub.ModelMetadata(oip.ModelMetadataRequest(), timeout=TIMEOUT)
    assert "attentions" not in {tensor.name for tensor in metadata.outputs}
    refusal = held_peer.refused(raw_texts("kind", outputs=["attentions"]))
    assert refusal.code is StatusCode.FAILED_PRECONDITION


def test_an_engine_that_breaks_is_our_fault_and_the_next_call_is_answered(held_peer) -> None:
    assert held_peer.refused(raw_ids([[3, NOT_A_NUMBER]])).reason == "INTERNAL_FAULT"
    logits = tensors(held_peer.infer(raw_ids([[3, 4]])))["logits"]
    np.testing.assert_allclose(logits, [[2, 7, 3]])
