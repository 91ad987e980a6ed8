"""int8: what a token and a linear layer become, by hand."""

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper

from export.graph_writer import GraphWriter
from export.graphs import OPSET
from export.int8_operators import (
    Tokens,
    linear,
    quantize_columns,
    quantize_gelu,
    quantize_tokens,
)
from tests.export.int8_sessions import session_of


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


def test_equal_constants_are_held_once() -> None:
    graph = GraphWriter(OPSET)
    total = graph.add("Add", graph.add("Add", "x", np.float32(2)), np.float32(2))
    graph.add("Add", total, np.int64(2), output="y")
    model = graph.finish("constants", [], [])
    assert [tensor.data_type for tensor in model.graph.initializer] == [
        TensorProto.FLOAT,
        TensorProto.INT64,
    ]
