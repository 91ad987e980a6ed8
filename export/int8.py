"""Writes classify.onnx in int8 so that a text's answer does not depend on its neighbours.

A scale for each token is not enough for that. A float sum that comes out 1e-7 differently, because
its text stands elsewhere in a row, can tip a rounding to 8 bits; that tips others, and the logits
end up 1e-2 apart. So every float sum before a rounding adds up in the same order at any place:
- Softmax is written out. What divides its exponentials is a product with ones, which adds key
  after key; keys of other texts are exact zeros there and change nothing.
- The product with the values is cut into few columns: ONNX Runtime adds up to 1,024 keys in one go
  then, and only 256 where there are 64 columns.
- Pooling and classifier add up in float64, beyond what float32 can show.

Letters: R rows, T row length, N = R*T tokens, B texts, H heads, K head size, D hidden, C classes,
P parts of a head's columns.
"""

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper

from export.graph_writer import GraphWriter, axes
from export.graphs import CLASSIFY, OPSET, sizes_of
from export.int8_operators import (
    Tokens,
    Weights,
    linear,
    normalize,
    quantize_gelu,
    quantize_tokens,
)
from model.encoder import EncoderClassifier

MAX_COLUMNS = 16  # of one product with the values
SUM_COLUMNS = 4  # a product with a single column would add up in another order
MASKED = np.finfo(np.float32).min


@dataclass(frozen=True)
class Hidden:
    """Hidden states as value * gain + shift, which those who read them take into their weights."""

    tokens: Tokens
    gain: Weights
    shift: Weights


def int8_graph(encoder: EncoderClassifier) -> onnx.ModelProto:
    """The encoder as classify.onnx in int8, with the inputs and outputs of CLASSIFY.

    Embeddings, both products inside attention, pooling and classifier stay float.
    """
    return _Int8Network(encoder).write()


class _Int8Network:
    """One graph on its way: the weights, and what all layers share."""

    def __init__(self, encoder: EncoderClassifier) -> None:
        self.config = encoder.config
        self.scale, self.positions = encoder.embeddings.scale, encoder.embeddings.positions.numpy()
        self.weights: dict[str, Weights] = {
            name: tensor.numpy().astype(np.float64) for name, tensor in encoder.state_dict().items()
        }
        self.graph = GraphWriter(OPSET)
        self.rows = self.graph.add("Shape", "input_ids", start=0, end=1)
        self.row_length = self.graph.add("Shape", "input_ids", start=1, end=2)
        self.num_tokens = self.graph.add("Mul", self.rows, self.row_length)
        self.num_texts = self.graph.add("Shape", "cls_index", start=0, end=1)
        self.bias = self._attention_bias()
        ones = self.graph.add("Concat", self.row_length, axes(SUM_COLUMNS), axis=0)
        self.ones = self.graph.add("Expand", np.float32(1), ones)  # (T, SUM_COLUMNS)

    def write(self) -> onnx.ModelProto:
        hidden = self._embeddings()
        for index in range(self.config.num_hidden_layers):
            hidden = self._layer(index, hidden)
        self._classify(hidden)

        def values(names: tuple[str, ...], kind: int) -> list[onnx.ValueInfoProto]:
            return [
                helper.make_tensor_value_info(name, kind, sizes_of(name, self.config))
                for name in names
            ]

        return self.graph.finish(
            "classify",
            values(CLASSIFY.inputs, TensorProto.INT64),
            values(CLASSIFY.outputs, TensorProto.FLOAT),
        )

    def _attention_bias(self) -> str:
        """0 where query and key belong together, a huge negative elsewhere, (R, 1, 1, T, T)."""
        add = self.graph.add
        query = add("Unsqueeze", "sequence_ids", axes(1, 2, 4))  # (R, 1, 1, T, 1)
        key = add("Unsqueeze", "sequence_ids", axes(1, 2, 3))  # (R, 1, 1, 1, T)
        seen = add("Equal", query, key)
        if self.config.causal:
            column = self._range(self.row_length)  # (T,)
            earlier = add("GreaterOrEqual", add("Unsqueeze", column, axes(1)), column)
            seen = add("And", seen, earlier)
        return add("Where", seen, np.float32(0), MASKED)

    def _range(self, length: str) -> str:
        """0, 1, ... below a tensor of one number."""
        stop = self.graph.add("Squeeze", length)
        return self.graph.add("Range", np.int64(0), stop, np.int64(1))

    def _embeddings(self) -> Hidden:
        add, table = self.graph.add, self.weights["embeddings.tokens.weight"].astype(np.float32)
        tokens = add("Mul", add("Gather", table, "input_ids"), np.float32(self.scale))
        embedded = add("Add", tokens, add("Gather", self.positions, "position_ids"))  # (R, T, D)
        hidden_size = self.config.hidden_size
        value = add("Reshape", embedded, axes(1, -1, hidden_size))  # (1, N, D)
        return Hidden(Tokens(value, self.num_tokens), np.ones(hidden_size), np.zeros(hidden_size))

    def _layer(self, index: int, hidden: Hidden) -> Hidden:
        layer = f"layers.{index}"
        context, value_shift = self._attention(hidden, f"{layer}.attention.qkv")
        if self.config.pooling == "first" and index == self.config.num_hidden_layers - 1:
            context, hidden = self._take_texts(context), self._take_texts_of(hidden)
        weight, bias = self._linear(f"{layer}.attention.output")
        tokens = quantize_tokens(self.graph, Tokens(context, hidden.tokens.count))
        output = linear(self.graph, tokens, weight)
        hidden = self._add_and_normalize(
            hidden, output, bias + weight @ value_shift, f"{layer}.attention_norm"
        )
        output, bias = self._feed_forward(hidden, layer)
        return self._add_and_normalize(hidden, output, bias, f"{layer}.output_norm")

    def _attention(self, hidden: Hidden, name: str) -> tuple[str, Weights]:
        """The context (1, N, D), and what is still to be added to each token of it (D,).

        The keys' shift changes all scores of a query alike, and softmax does not see it. The
        values' shift is in every context as it is, since probabilities sum to 1.
        """
        add, config = self.graph.add, self.config
        num_heads, head_size = config.num_attention_heads, config.head_size
        weight, bias = self._linear(name, hidden)
        query_shift, _, value_shift = np.split(bias, 3)
        scale = head_size**-0.5
        factor = np.repeat([scale, 1.0, 1.0], config.hidden_size)
        projected = linear(
            self.graph, quantize_tokens(self.graph, hidden.tokens), weight, factor=factor
        )
        heads = self._view(projected, 3 * num_heads, 1, head_size)  # (R, T, 3H, 1, K)
        query, key, value = self.graph.add_split(heads, 3, axis=2)
        query = add("Transpose", query, perm=[0, 2, 3, 1, 4])  # (R, H, 1, T, K)
        shift = (query_shift * scale).astype(np.float32).reshape(num_heads, 1, 1, head_size)
        key = add("Transpose", key, perm=[0, 2, 3, 4, 1])  # (R, H, 1, K, T)
        scores = add("Add", add("MatMul", add("Add", query, shift), key), self.bias)
        return self._context(scores, value), value_shift

    def _context(self, scores: str, value: str) -> str:
        """softmax(scores) @ value, (1, N, D), from (R, H, 1, T, T) and (R, T, H, 1, K)."""
        add, config = self.graph.add, self.config
        columns = columns_at_once(config.head_size)
        parts = config.head_size // columns
        value = self._view(value, config.num_attention_heads, parts, columns)
        value = add("Transpose", value, perm=[0, 2, 3, 1, 4])  # (R, H, P, T, K/P)
        largest = add("ReduceMax", scores, axes(-1), keepdims=1)
        exponentials = add("Exp", add("Sub", scores, largest))
        sums = add("MatMul", exponentials, self.ones)  # (R, H, 1, T, SUM_COLUMNS)
        sums = add("Slice", sums, axes(0), axes(1), axes(-1))
        context = add("Div", add("MatMul", exponentials, value), sums)  # (R, H, P, T, K/P)
        context = add("Transpose", context, perm=[0, 3, 1, 2, 4])
        return add("Reshape", context, axes(1, -1, config.hidden_size))

    def _feed_forward(self, hidden: Hidden, layer: str) -> tuple[str, Weights]:
        """The second product (1, N, D), and its bias (D,), which is still to be added."""
        count = hidden.tokens.count
        weight, bias = self._linear(f"{layer}.intermediate", hidden)
        tokens = quantize_tokens(self.graph, hidden.tokens)
        inner = self.graph.add("Gelu", linear(self.graph, tokens, weight, bias))
        weight, bias = self._linear(f"{layer}.output")
        return linear(self.graph, quantize_gelu(self.graph, Tokens(inner, count)), weight), bias

    def _add_and_normalize(self, hidden: Hidden, output: str, shift: Weights, norm: str) -> Hidden:
        add = self.graph.add
        scaled = add("Mul", hidden.tokens.value, hidden.gain.astype(np.float32))
        residual = add("Add", scaled, (hidden.shift + shift).astype(np.float32))
        value = normalize(self.graph, add("Add", output, residual), self.config.layer_norm_eps)
        tokens = Tokens(value, hidden.tokens.count)
        return Hidden(tokens, self.weights[f"{norm}.weight"], self.weights[f"{norm}.bias"])

    def _take_texts(self, value: str) -> str:
        """Of (1, N, D) the tokens that the classifier reads, (1, B, D)."""
        return self.graph.add("Gather", value, "cls_index", axis=1)

    def _take_texts_of(self, hidden: Hidden) -> Hidden:
        tokens = Tokens(self._take_texts(hidden.tokens.value), self.num_texts)
        return Hidden(tokens, hidden.gain, hidden.shift)

    def _classify(self, hidden: Hidden) -> None:
        add = self.graph.add
        flat = add("Reshape", hidden.tokens.value, axes(-1, self.config.hidden_size))
        flat = add("Cast", flat, to=TensorProto.DOUBLE)
        pooled = flat if self.config.pooling == "first" else self._mean(flat)
        weight, bias = self._linear("classifier", hidden)
        logits = add("Gemm", pooled, weight, bias, transB=1)
        add("Cast", logits, to=TensorProto.FLOAT, output=CLASSIFY.outputs[0])

    def _mean(self, flat: str) -> str:
        """Each text's mean over its tokens (B, D), from (N, D)."""
        add = self.graph.add
        # A text is named by its row and its number in the row.
        row = add("Unsqueeze", self._range(self.rows), axes(1))  # (R, 1)
        first = add("Mul", row, add("Add", self.row_length, axes(1)))
        name = add("Reshape", add("Add", first, "sequence_ids"), axes(-1))  # (N,)
        own = add("Unsqueeze", add("Gather", name, "cls_index"), axes(1))  # (B, 1)
        member = add("Cast", add("Equal", own, name), to=TensorProto.DOUBLE)  # (B, N)
        count = add("ReduceSum", member, axes(1), keepdims=1)
        return add("Div", add("MatMul", member, flat), count)

    def _linear(self, name: str, reads: Hidden | None = None) -> tuple[Weights, Weights]:
        """Weight (F, D) and bias (F,) of a layer; those that fit hidden.value, if it reads one."""
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        if reads is None:
            return weight, bias
        return weight * reads.gain, bias + weight @ reads.shift

    def _view(self, value: str, *sizes: int) -> str:
        """(1, N, F) as (R, T, *sizes)."""
        shape = self.graph.add("Concat", self.rows, self.row_length, axes(*sizes), axis=0)
        return self.graph.add("Reshape", value, shape)


def columns_at_once(head_size: int) -> int:
    """The most columns of a head, up to MAX_COLUMNS, that divide it; all, where only 1 does."""
    divisors = [size for size in range(2, MAX_COLUMNS + 1) if head_size % size == 0]
    return max(divisors, default=head_size)
