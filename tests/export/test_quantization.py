"""int8 bundles: what is in them, how accurate they are, and losses that are refused."""

import math
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto

from export.accuracy import LabelledTexts, Quantization, measure_accuracy
from export.bundle import export_bundle
from export.errors import AccuracyError
from export.graphs import ATTENTION, CLASSIFY
from export.parity import INT8
from model.bundle import GRAPH_WEIGHTS, MODEL_CARD, WEIGHTS
from model.data.dataset import Source
from model.packing import pack
from model.training.batches import EncodedTexts
from model.weights import as_tensors
from tests.export.int8_sessions import answers, random_texts


def test_all_matrices_of_the_layers_are_int8(int8_bundle) -> None:
    model = onnx.load(int8_bundle.file(CLASSIFY.file))
    config = int8_bundle.config
    kinds = {
        tuple(tensor.dims): tensor.data_type
        for tensor in model.graph.initializer
        if len(tensor.dims) == 2 and min(tensor.dims) > 1
    }
    hidden, inner = config.hidden_size, config.intermediate_size
    assert kinds == {
        (hidden, 3 * hidden): TensorProto.INT8,
        (hidden, 2 * hidden): TensorProto.INT8,  # keys and values of the last layer
        (hidden, hidden): TensorProto.INT8,
        (hidden, inner): TensorProto.INT8,
        (inner, hidden): TensorProto.INT8,
        (config.vocab_size, hidden): TensorProto.FLOAT,
        (config.max_position_embeddings, hidden): TensorProto.FLOAT,
        (config.num_labels, hidden): TensorProto.DOUBLE,
    }


def test_embeddings_are_shared_and_weights_of_attention_stay(int8_bundle, exported_bundle) -> None:
    def places(bundle, graph):
        model = onnx.load(bundle.file(graph.file), load_external_data=False)
        return {
            tuple(tensor.dims): tuple(entry.value for entry in tensor.external_data[1:])
            for tensor in model.graph.initializer
            if tensor.data_location == TensorProto.EXTERNAL
        }

    config = int8_bundle.config
    classify, attention = places(int8_bundle, CLASSIFY), places(int8_bundle, ATTENTION)
    for rows in (config.vocab_size, config.max_position_embeddings):
        shape = (rows, config.hidden_size)
        assert classify[shape] == attention[shape]
    bytes_of = [
        bundle.file(GRAPH_WEIGHTS).stat().st_size for bundle in (int8_bundle, exported_bundle)
    ]
    assert bytes_of[0] > bytes_of[1]
    assert int8_bundle.files[WEIGHTS] == exported_bundle.files[WEIGHTS]


def test_attention_stays_what_it_is_in_float32(int8_bundle, exported_bundle) -> None:
    rows = pack(random_texts(int8_bundle.config.vocab_size, [9, 4, 17]))
    feed = {name: getattr(rows, name) for name in CLASSIFY.inputs}
    feed["head_gate"] = np.ones((2, 5), dtype=np.float32)
    outputs = [
        onnxruntime.InferenceSession(bundle.file(ATTENTION.file)).run(None, feed)
        for bundle in (int8_bundle, exported_bundle)
    ]
    for int8, float32 in zip(*outputs, strict=True):
        np.testing.assert_array_equal(int8, float32)


def test_the_bundle_says_what_it_computes_with_and_how_exact(int8_bundle, exported_bundle) -> None:
    assert exported_bundle.manifest.precision == "float32"
    assert int8_bundle.manifest.precision == "int8"
    parity = int8_bundle.manifest.parity
    assert parity["tolerance"]["classify_logits"] == INT8.classify_logits
    for figures in parity["cases"].values():
        assert 0 < figures["classify_logits"] <= INT8.classify_logits
        assert figures["attention_logits"] <= 1e-4
        assert figures["neighbours"] <= INT8.neighbours
    assert int8_bundle.manifest.metrics["int8"] == {"forced": True}
    card = int8_bundle.file(MODEL_CARD).read_text(encoding="utf-8")
    assert "classify.onnx int8" in card
    assert "was not measured" in card


def labelled(encoder, texts, targets):
    return LabelledTexts(
        texts=EncodedTexts(texts, torch.as_tensor(targets), 0),
        source=Source(name="made-up", fingerprints={"x": "1"}),
        split="validation",
    )


@pytest.fixture(scope="module")
def close_calls(int8_bundle, tiny_encoder):
    """Texts with float32's own answers for targets; and which of them int8 answers otherwise."""
    texts = random_texts(int8_bundle.config.vocab_size, [3] * 4000)
    rows = pack(texts, max_row_length=60)
    with torch.inference_mode():
        float32 = tiny_encoder(*as_tensors(rows))[0].numpy().argmax(1)
    session = onnxruntime.InferenceSession(int8_bundle.file(CLASSIFY.file))
    changed = np.flatnonzero(answers(session, rows).argmax(1) != float32)
    same = np.flatnonzero(answers(session, rows).argmax(1) == float32)
    assert len(changed) >= 2
    return texts, float32, changed, same


def measure(bundle, encoder, close_calls, indices, force=False):
    texts, float32, _, _ = close_calls
    measured_on = labelled(encoder, [texts[index] for index in indices], float32[indices])
    quantization = Quantization(measured_on=measured_on, force=force)
    return measure_accuracy(encoder, bundle.path, bundle.manifest, quantization)


def test_accuracy_stands_beside_that_of_float32(int8_bundle, tiny_encoder, close_calls) -> None:
    _, _, changed, same = close_calls
    record = measure(int8_bundle, tiny_encoder, close_calls, [*changed[:1], *same[:199]])
    assert (record["data"], record["split"], record["num_texts"]) == ("made-up", "validation", 200)
    assert record["float32"]["accuracy"] == 1.0
    assert record["int8"]["accuracy"] == 0.995  # exactly half a point less: allowed
    assert record["answers_changed"] == 1
    assert 0 < record["largest_logit_difference"] < INT8.classify_logits
    assert record["forced"] is False


def test_more_than_half_a_point_is_refused_unless_forced(
    int8_bundle, tiny_encoder, close_calls
) -> None:
    _, _, changed, same = close_calls
    indices = [*changed[:2], *same[:198]]
    with pytest.raises(AccuracyError, match=r"loses 1\.00 points .* made-up \(200 texts: float32"):
        measure(int8_bundle, tiny_encoder, close_calls, indices)
    assert measure(int8_bundle, tiny_encoder, close_calls, indices, force=True)["forced"] is True


def test_decisions_on_several_labels_count_as_one_answer(
    int8_bundle, tiny_encoder, close_calls
) -> None:
    texts, _, _, same = close_calls
    manifest = replace(int8_bundle.manifest, problem_type="multi_label")
    targets = np.zeros((50, 3), dtype=np.float32)
    measured_on = labelled(tiny_encoder, [texts[index] for index in same[:50]], targets)
    quantization = Quantization(measured_on=measured_on, force=True)
    record = measure_accuracy(tiny_encoder, int8_bundle.path, manifest, quantization)
    assert 0 <= record["answers_changed"] <= 50
    assert math.isfinite(record["int8"]["nll"])


def test_nothing_is_quantized_unmeasured_without_force() -> None:
    with pytest.raises(ValueError, match="labelled texts"):
        Quantization(measured_on=None)


def test_float32_forgets_that_its_source_was_int8(tmp_path, int8_bundle) -> None:
    again = export_bundle(int8_bundle.path, tmp_path / "float32")
    assert again.manifest.precision == "float32"
    assert "int8" not in again.manifest.metrics
    assert "int8" not in again.file(MODEL_CARD).read_text(encoding="utf-8")
