"""ModelInfer against a real server: the same answers as Classify gives, as tensors."""

import json

import grpc
import numpy as np
import pytest

from heedful.oip import open_inference_pb2 as oip
from heedful.v1 import classifier_pb2 as pb
from tests.conftest import LABELS, SENTENCES
from tests.service.calls import texts
from tests.service.oip.calls import raw_ids, raw_texts, tensors


def logits_of(caller, *sentences: str) -> np.ndarray:
    """What Classify says, in the order of the labels: (n, C)."""
    results = caller.classify(*sentences).results
    return np.array(
        [[s.logit for s in sorted(r.labels, key=lambda s: s.index)] for r in results], "<f4"
    )


def test_texts_get_the_answers_that_classify_gives(peer, caller) -> None:
    answer = peer.infer(raw_texts(*SENTENCES, id="mine"))
    assert (answer.model_name, answer.id) == ("tiny", "mine")
    assert answer.model_version == caller.classify("kind").version
    found = tensors(answer)
    assert list(found) == ["logits", "probabilities", "labels"]
    expected = logits_of(caller, *SENTENCES)
    np.testing.assert_allclose(found["logits"], expected, atol=1e-5)
    powers = np.exp(expected.astype("f8"))
    np.testing.assert_allclose(
        found["probabilities"], powers / powers.sum(1, keepdims=True), atol=1e-5
    )
    assert [row[0].decode() for row in found["labels"]] == [
        LABELS[i] for i in expected.argmax(axis=1)
    ]


def test_a_column_of_texts_is_the_same_as_a_row(peer) -> None:
    column = tensors(peer.infer(raw_texts("kind", "film", shape=[2, 1])))
    row = tensors(peer.infer(raw_texts("kind", "film")))
    np.testing.assert_allclose(column["logits"], row["logits"], atol=1e-5)


@pytest.mark.parametrize("dtype", ["<i8", "<i4"])
@pytest.mark.parametrize("nested", [True, False])
def test_token_ids_are_read_as_they_are(peer, tiny_bundle, dtype, nested) -> None:
    ids = tiny_bundle.text_encoder().encode(SENTENCES[0]).input_ids
    answer = peer.infer(raw_ids([ids] if nested else ids, dtype=dtype))
    by_text = tensors(peer.infer(raw_texts(SENTENCES[0])))
    np.testing.assert_allclose(tensors(answer)["logits"], by_text["logits"], atol=1e-5)


def test_several_texts_of_ids_are_rows(peer) -> None:
    assert tensors(peer.infer(raw_ids([[2, 9, 3], [2, 8, 3]])))["logits"].shape == (2, 3)


def test_outputs_come_in_the_order_asked_for(peer) -> None:
    asked = ("labels", "logits")
    assert tuple(tensors(peer.infer(raw_texts("kind", outputs=asked)))) == asked


def test_attentions_come_only_when_named_and_are_those_of_classify(peer, caller) -> None:
    assert "attentions" not in tensors(peer.infer(raw_texts("A kind film")))
    found = tensors(peer.infer(raw_texts("A kind film", outputs=["attentions"])))["attentions"]
    request = texts("A kind film", attention=pb.AttentionOptions())
    attention = caller.stub.Classify(request).results[0].attention
    assert found.shape == (1, *attention.shape)
    expected = np.frombuffer(attention.data, "<f4").reshape(found.shape)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_attentions_of_several_texts_need_one_length(peer) -> None:
    same = raw_ids([[2, 9, 3], [2, 8, 3]], outputs=["attentions"])
    assert tensors(peer.infer(same))["attentions"].shape == (2, 2, 5, 3, 3)
    refusal = peer.refused(raw_texts("kind", "A kind film", outputs=["attentions"]))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "one text at a time" in refusal.message


@pytest.mark.parametrize(("classes", "width"), [(2, 2), (9, 3)])
def test_the_classification_extension_names_the_best_classes(peer, classes, width) -> None:
    request = raw_texts("A kind film", "bad")
    for name in ("probabilities", "logits"):
        output = request.outputs.add(name=name)
        output.parameters["classification"].int64_param = classes
    plain = tensors(peer.infer(raw_texts("A kind film", "bad")))
    for name, named in tensors(peer.infer(request)).items():
        assert named.shape == (2, width)
        for values, row in zip(plain[name], named, strict=True):
            parts = [data.decode().split(":") for data in row]
            order = np.argsort(-values, kind="stable")[:width]
            assert [int(index) for _, index, _ in parts] == order.tolist()
            assert [label for *_, label in parts] == [LABELS[index] for index in order]
            np.testing.assert_allclose([float(p[0]) for p in parts], values[order], atol=2e-6)


def test_top_k_says_how_many_labels_each_text_gets(peer) -> None:
    request = raw_texts("kind", "bad", outputs=["labels"])
    request.parameters["top_k"].int64_param = 2
    assert tensors(peer.infer(request))["labels"].shape == (2, 2)


def test_truncation_is_asked_for_and_told(peer) -> None:
    long = "kind " * 60
    assert peer.refused(raw_texts(long)).code is grpc.StatusCode.INVALID_ARGUMENT
    request = raw_texts("kind", long)
    request.parameters["truncation"].string_param = "tail"
    lost = json.loads(peer.infer(request).parameters["lost_tokens"].string_param)
    assert lost[0] == 0 < lost[1]
    assert "lost_tokens" not in peer.infer(raw_texts("kind")).parameters


def test_typed_requests_get_typed_answers(peer) -> None:
    request = oip.ModelInferRequest()
    tensor = request.inputs.add(name="text", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(b"A kind film")
    request.outputs.add(name="labels")
    request.outputs.add(name="attentions")
    answer = peer.infer(request)
    assert not answer.raw_output_contents
    labels, attentions = answer.outputs
    assert labels.contents.bytes_contents[0].decode() in LABELS
    expected = tensors(peer.infer(raw_texts("A kind film", outputs=["attentions"])))["attentions"]
    found = np.array(attentions.contents.fp32_contents, "<f4").reshape(attentions.shape)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_typed_ids_are_taken(peer) -> None:
    request = oip.ModelInferRequest()
    tensor = request.inputs.add(name="input_ids", datatype="INT64", shape=[1, 3])
    tensor.contents.int64_contents.extend([2, 9, 3])
    (logits, *_) = peer.infer(request).outputs
    expected = tensors(peer.infer(raw_ids([[2, 9, 3]])))["logits"]
    np.testing.assert_allclose(logits.contents.fp32_contents, expected[0], atol=1e-5)
