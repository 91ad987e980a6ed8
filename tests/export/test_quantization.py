"""int8: what a token becomes, answers that neighbours cannot move, and losses that are refused."""

import math
from collections import Counter
from dataclasses import fields, replace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from export.accuracy import LabelledTexts, Quantization, measure_accuracy
from export.bundle import export_bundle
from export.errors import AccuracyError
from export.graph_writer import GraphWriter
from export.graphs import ATTENTION, CLASSIFY, OPSET
from export.int8 import int8_graph
from export.int8_attention import columns_at_once
from export.int8_operators import (
    Tokens,
    linear,
    normalize,
    quantize_columns,
    quantize_gelu,
    quantize_tokens,
)
from export.parity import INT8
from model.bundle import GRAPH_WEIGHTS, MODEL_CARD, WEIGHTS
from model.config import EncoderConfig
from model.data.dataset import Source
from model.encoder import EncoderClassifier
from model.packing import PackedRows, Span, pack
from model.training.batches import EncodedTexts
from model.weights import as_tensors

NEIGHBOURS = 1e-6
# Switches and sizes that export/int8.py answers to. A new one must be built there, then named here.
KNOWN_FIELDS = {
    "vocab_size", "num_labels", "hidden_size", "num_hidden_layers", "num_attention_heads",
    "intermediate_size", "max_position_embeddings", "pooling", "causal", "dropout",
    "layer_norm_eps", "pad_token_id",
}  # fmt: skip


def session_of(model, optimized=None):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if optimized:
        options.optimized_model_filepath = str(optimized)
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def answers(session, rows):
    return session.run(None, {name: getattr(rows, name) for name in CLASSIFY.inputs})[0]


def run_operators(make, tokens):
    """Runs what make(graph, tokens) adds, on tokens (N, D); its outputs by order."""
    graph = GraphWriter(OPSET)
    outputs = make(graph, Tokens("tokens", graph.add("Shape", "tokens", start=1, end=2)))
    model = graph.finish(
        "operators",
        [helper.make_tensor_value_info("tokens", TensorProto.FLOAT, (1, None, None))],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )
    array = np.asarray(tokens, dtype=np.float32)[None]
    return [output[0] for output in session_of(model).run(None, {"tokens": array})]


def quantized(make, tokens):
    """uint8 and scale of each token."""

    def both(graph, inputs):
        result = make(graph, inputs)
        return result.value, result.scale

    return run_operators(both, tokens)


def random_texts(vocab_size, lengths, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.integers(vocab_size, size=length).tolist() for length in lengths]


def encoder_of(**changes):
    torch.manual_seed(7)
    sizes = {
        "vocab_size": 50, "num_labels": 4, "hidden_size": 24, "num_hidden_layers": 2,
        "num_attention_heads": 3, "intermediate_size": 20, "max_position_embeddings": 33,
    }  # fmt: skip
    encoder = EncoderClassifier(EncoderConfig(**{**sizes, **changes})).eval()
    with torch.no_grad():  # what training would move: shifts that are 0 at first test nothing
        for name, parameter in encoder.named_parameters():
            if name.endswith("bias") or "norm" in name:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return encoder


@pytest.fixture(scope="module", params=["first", "mean", "causal"])
def network(request):
    """An encoder of each kind and its int8 graph."""
    kinds = {"first": {}, "mean": {"pooling": "mean"}, "causal": {"pooling": "mean"}}
    encoder = encoder_of(**kinds[request.param], causal=request.param == "causal")
    return encoder, session_of(int8_graph(encoder))


def test_each_token_has_its_own_scale() -> None:
    values, scales = quantized(quantize_tokens, [[63.5, -20.0, 0.25], [-254.0, 3.0, 127.0]])
    np.testing.assert_allclose(scales, [[0.5], [2.0]], rtol=1e-6)
    # 0.25 / 0.5 and 3 / 2 lie halfway: to even.
    assert (values.astype(int) - 128).tolist() == [[127, -40, 0], [-127, 2, 64]]


def test_a_token_of_zeros_is_multiplied_to_zero() -> None:
    weight = np.array([[1.0, -2.0, 3.0], [4.0, 5.0, 6.0]])
    bias = np.array([7.0, 8.0])

    def product(graph, tokens):
        return (linear(graph, quantize_tokens(graph, tokens), weight, bias),)

    (result,) = run_operators(product, [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    assert result[0].tolist() == [7.0, 8.0]
    np.testing.assert_allclose(result[1], [9.0, 23.0], atol=0.03)  # weights are rounded


def test_a_linear_layer_by_hand() -> None:
    """Weights and tokens that fit 8 bits exactly: scales 2 and 1 of the rows, 0.5 of the token."""
    weight = np.array([[254.0, 2.0, 0.0], [-127.0, 0.0, 10.0]])
    integers, scale = quantize_columns(weight)
    assert integers.tolist() == [[127, -127], [1, 0], [0, 10]]
    assert scale.tolist() == [2.0, 1.0]

    def product(graph, tokens):
        inputs = quantize_tokens(graph, tokens)
        factor = np.array([1.0, 0.1])
        return (linear(graph, inputs, weight, np.array([5.0, -1.0]), factor),)

    (result,) = run_operators(product, [[63.5, -20.0, 0.25]])
    # 127 * 254 - 40 * 2 = 32178 and 127 * -127 + 0 * 10 = -16129, times 0.5.
    np.testing.assert_allclose(result, [[16089 + 5, -806.45 - 1]], rtol=1e-6)


def test_columns_of_zeros_and_rounding_keep_within_half_a_step() -> None:
    weight = np.random.default_rng(2).normal(size=(5, 7))
    weight[3] = 0.0
    integers, scale = quantize_columns(weight)
    assert integers.dtype == np.int8
    assert np.abs(integers).max() == 127
    assert (np.abs(integers.T * scale[:, None] - weight) <= 0.5001 * scale[:, None]).all()


@pytest.mark.parametrize("largest", [0.01, 0.7, 3.0, 40.0])
def test_gelu_keeps_both_ends(largest) -> None:
    tokens = torch.nn.functional.gelu(torch.linspace(-9, largest, 401)).numpy()[None]
    values, scales = quantized(quantize_gelu, tokens)
    assert values.dtype == np.uint8
    assert values.max() <= 255
    error = np.abs((values.astype(int) - 48) * scales - tokens)
    assert (error <= 0.5001 * scales).all()
    # Finer than a scale for both signs would be, wherever there is anything to be coarse about.
    assert scales[0, 0] <= max(tokens.max() / 127, 0.17 / 48)


def test_normalizing_is_layer_norm() -> None:
    tokens = np.random.default_rng(3).normal(2.0, 5.0, size=(4, 30)).astype(np.float32)
    (result,) = run_operators(lambda graph, inputs: [normalize(graph, inputs.value, 1e-5)], tokens)
    expected = torch.nn.functional.layer_norm(torch.from_numpy(tokens), (30,)).numpy()
    np.testing.assert_allclose(result, expected, atol=1e-5)


def test_equal_constants_are_held_once() -> None:
    graph = GraphWriter(OPSET)
    total = graph.add("Add", graph.add("Add", "x", np.float32(2)), np.float32(2))
    graph.add("Add", total, np.int64(2), output="y")
    model = graph.finish("constants", [], [])
    assert [tensor.data_type for tensor in model.graph.initializer] == [
        TensorProto.FLOAT,
        TensorProto.INT64,
    ]


@pytest.mark.parametrize(
    ("head_size", "columns"), [(64, 16), (32, 16), (24, 12), (6, 6), (17, 17), (34, 2), (1, 1)]
)
def test_heads_are_cut_into_equal_parts_of_more_than_one_column(head_size, columns) -> None:
    assert columns_at_once(head_size) == columns


def test_the_int8_network_knows_every_switch_of_the_encoder() -> None:
    assert {field.name for field in fields(EncoderConfig)} == KNOWN_FIELDS


@torch.inference_mode()
def test_int8_agrees_with_pytorch_as_far_as_8_bits_can(network) -> None:
    encoder, session = network
    for lengths in ([1], [33], [9, 4, 17, 1, 30, 2], [5, 5, 5]):
        rows = pack(random_texts(50, lengths), max_row_length=40)
        expected, _ = encoder(*as_tensors(rows))
        found = answers(session, rows)
        assert found.dtype == np.float32
        assert found.shape == (len(lengths), 4)
        np.testing.assert_allclose(found, expected.numpy(), atol=0.1, rtol=0)


@settings(max_examples=60, deadline=None)
@given(
    text=st.lists(st.integers(0, 49), min_size=1, max_size=33),
    others=st.lists(st.integers(1, 33), max_size=12),
    place=st.integers(0, 12),
    max_row_length=st.sampled_from([1, 50, 400]),
    seed=st.integers(0, 9999),
)
def test_a_text_answers_the_same_alone_and_among_any_others(
    network, text, others, place, max_row_length, seed
) -> None:
    _, session = network
    texts = random_texts(50, others, seed)
    place = min(place, len(texts))
    texts.insert(place, text)
    alone = answers(session, pack([text]))[0]
    packed = answers(session, pack(texts, max_row_length=max_row_length))[place]
    np.testing.assert_allclose(packed, alone, atol=NEIGHBOURS, rtol=0)


def one_row(texts):
    """All texts in one row, in order: longer than packing would make it."""
    starts = np.cumsum([0, *map(len, texts[:-1])])
    spans = tuple(Span(0, int(start), len(text)) for start, text in zip(starts, texts, strict=True))
    return PackedRows(
        input_ids=np.concatenate(texts)[None],
        position_ids=np.concatenate([np.arange(len(text)) for text in texts])[None],
        sequence_ids=np.repeat(np.arange(1, len(texts) + 1), [len(text) for text in texts])[None],
        cls_index=starts.astype(np.int64),
        spans=spans,
    )


@pytest.mark.parametrize("num_heads", [2, 4])
def test_sums_over_long_rows_move_no_answer(num_heads) -> None:
    """To the last digit: what differs by 1e-7 here tips roundings in larger networks.

    Heads of 64 columns would be summed in blocks of 256 keys.
    """
    encoder = encoder_of(
        hidden_size=128,
        num_attention_heads=num_heads,
        intermediate_size=256,
        max_position_embeddings=300,
        num_hidden_layers=3,
    )
    session = session_of(int8_graph(encoder))
    texts = random_texts(50, [150, 250, 40, 300, 13, 7, 1, 90, 31])
    packed = answers(session, one_row(texts))
    alone = np.concatenate([answers(session, pack([text])) for text in texts])
    np.testing.assert_array_equal(packed, alone)


def test_onnx_runtime_leaves_the_order_of_sums_alone(tmp_path) -> None:
    """Its optimizer must not put back the operators that the graph avoids."""
    path = tmp_path / "optimized.onnx"
    session_of(int8_graph(encoder_of()), optimized=path)
    count = Counter(node.op_type for node in onnx.load(path).graph.node)
    assert count["MatMulIntegerToFloat"] == 4 * 2 + 1  # the last layer's queries are fewer
    assert count["QuantizeLinear"] == 4 * 2
    assert count["Exp"] == count["Gelu"] == 2
    avoided = {"Softmax", "LayerNormalization", "SkipLayerNormalization", "BiasGelu"}
    assert not avoided & set(count)


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
        assert figures["neighbours"] <= NEIGHBOURS
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
