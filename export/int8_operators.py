"""Operators of the int8 graph: tokens to 8 bits with a scale each, and what multiplies them.

Letters: N tokens of all rows, D hidden, F outputs of a linear layer. Hidden states are (1, N, D).

ONNX Runtime computes sums of 8-bit products exactly, in integers, whatever stands beside a token.
Each operator here is chosen for speed on a CPU: few passes over the tokens, all of them vectorized.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from export.graph_writer import MICROSOFT, GraphWriter, axes

Weights = npt.NDArray[np.float64]

LARGEST = 127  # of a symmetric 8-bit number
ZERO = 128  # stands for 0 in unsigned 8 bits; ONNX Runtime is fastest with unsigned tokens
# GELU is never below -0.17: its zero can stand low, and its largest value needs no sign.
GELU_LOWEST = 0.17
GELU_ZERO = 48


@dataclass(frozen=True)
class Tokens:
    """Hidden states (1, N, D) with what quantizing them needs: N, as a tensor of one number."""

    value: str
    count: str


@dataclass(frozen=True)
class QuantizedTokens:
    """uint8 (1, N, D), a scale for each token (1, N, 1), and what stands for 0."""

    value: str
    scale: str
    zero: int


def quantize_tokens(graph: GraphWriter, tokens: Tokens) -> QuantizedTokens:
    """Largest magnitude of each token to 127; a token of zeros stays one."""
    largest = graph.add("ReduceMax", graph.add("Abs", tokens.value), axes(-1), keepdims=1)
    scale = graph.add("Mul", largest, np.float32(1 / LARGEST))
    return _quantize(graph, tokens, scale, ZERO)


def quantize_gelu(graph: GraphWriter, tokens: Tokens) -> QuantizedTokens:
    """Largest value of each token to 255, for what came out of GELU: nothing below -0.17."""
    largest = graph.add("ReduceMax", tokens.value, axes(-1), keepdims=1)
    scale = graph.add("Mul", largest, np.float32(1 / (255 - GELU_ZERO)))
    scale = graph.add("Max", scale, np.float32(GELU_LOWEST / GELU_ZERO))
    return _quantize(graph, tokens, scale, GELU_ZERO)


def _quantize(graph: GraphWriter, tokens: Tokens, scale: str, zero: int) -> QuantizedTokens:
    scales = graph.add("Reshape", scale, axes(-1))  # (N,), as the axis wants it
    zeros = graph.add("Expand", np.uint8(zero), tokens.count)
    value = graph.add("QuantizeLinear", tokens.value, scales, zeros, axis=1)
    return QuantizedTokens(value, scale, zero)


def quantize_columns(weight: Weights) -> tuple[npt.NDArray[np.int8], Weights]:
    """weight (F, D) as int8 (D, F) with a scale for each output (F,): weight = scale * int8."""
    largest = np.abs(weight).max(1)
    scale = np.where(largest > 0, largest, 1.0) / LARGEST
    return np.rint(weight / scale[:, None]).astype(np.int8).T.copy(), scale


def linear(
    graph: GraphWriter,
    tokens: QuantizedTokens,
    weight: Weights,
    bias: Weights | None = None,
    factor: float | Weights = 1.0,
) -> str:
    """tokens @ weight.T * factor + bias, float32 (1, N, F).

    Args:
        weight: (F, D).
        bias: (F,); the factor does not touch it.
        factor: one, or one for each output (F,); costs nothing.
    """
    quantized, scale = quantize_columns(weight)
    columns = (scale * factor).astype(np.float32)
    # Its scale for tokens is one for all of them: that stays 1, and each token's own follows.
    sums = graph.add(
        "MatMulIntegerToFloat",
        tokens.value,
        quantized,
        np.float32(1),
        columns,
        np.uint8(tokens.zero),
        domain=MICROSOFT,
    )
    product = graph.add("Mul", sums, tokens.scale)
    if bias is None:
        return product
    # Two axes keep ONNX Runtime from fusing bias and GELU, which is slower than one by one.
    return graph.add("Add", product, bias.astype(np.float32)[None])
