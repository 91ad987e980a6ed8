"""Writes classify.onnx in int8 so that a text's answer does not depend on its neighbours.

A scale for each token is not enough for that. A float sum that comes out 1e-7 differently, because
its text stands elsewhere in a row, can tip a rounding to 8 bits; that tips others, and the logits
end up 1e-2 apart. So every float sum before a rounding adds up in the same order at any place:
- Softmax is written out. What divides its exponentials is a product with ones, which adds key
  after key; keys of other texts are exact zeros there and change nothing.
- The product with the values is cut into few columns: ONNX Runtime adds up to 1,024 keys in one go
  then, and only 256 where there are 64 columns.
- Pooling and classifier add up in float64, beyond what float32 can show.

Letters: R rows, T row length, N = R*T tokens, B texts, D hidden, F outputs of a linear layer.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper

from export.graph_writer import GraphWriter, axes
from export.graphs import CLASSIFY, OPSET, sizes_of
from export.int8_attention import Attention
from export.int8_operators import Tokens, Weights, linear, quantize_gelu, quantize_tokens
from model.encoder import EncoderClassifier


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
        self.attention = Attention(self.graph, self.config)
        self.num_tokens = self.graph.add("Mul", self.attention.rows, self.attention.row_length)
        self.num_texts = self.graph.add("Shape", "cls_index")

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

    def _embeddings(self) -> Tokens:
        add, table = self.graph.add, self.weights["embeddings.tokens.weight"].astype(np.float32)
        tokens = add("Mul", add("Gather", table, "input_ids"), np.float32(self.scale))
        embedded = add("Add", tokens, add("Gather", self.positions, "position_ids"))  # (R, T, D)
        value = add("Reshape", embedded, axes(1, -1, self.config.hidden_size))  # (1, N, D)
        return Tokens(value, self.num_tokens)

    def _layer(self, index: int, hidden: Tokens) -> Tokens:
        layer = f"layers.{index}"
        weight, bias = self._weights(f"{layer}.attention.qkv")
        tokens = quantize_tokens(self.graph, hidden)
        if self.config.pooling == "first" and index == self.config.num_hidden_layers - 1:
            context, shift = self.attention.of_texts(tokens, weight, bias)
            hidden = self._take_texts(hidden)
        else:
            context, shift = self.attention.of_all(tokens, weight, bias)
        weight, bias = self._weights(f"{layer}.attention.output")
        tokens = quantize_tokens(self.graph, Tokens(context, hidden.count))
        output = linear(self.graph, tokens, weight, bias + weight @ shift)
        hidden = self._add_and_normalize(hidden, output, f"{layer}.attention_norm")
        return self._add_and_normalize(
            hidden, self._feed_forward(hidden, layer), f"{layer}.output_norm"
        )

    def _feed_forward(self, hidden: Tokens, layer: str) -> str:
        tokens = quantize_tokens(self.graph, hidden)
        inner = linear(self.graph, tokens, *self._weights(f"{layer}.intermediate"))
        inner = self.graph.add("Gelu", inner)
        tokens = quantize_gelu(self.graph, Tokens(inner, hidden.count))
        return linear(self.graph, tokens, *self._weights(f"{layer}.output"))

    def _add_and_normalize(self, hidden: Tokens, output: str, norm: str) -> Tokens:
        gain, shift = (part.astype(np.float32) for part in self._weights(norm))
        total = self.graph.add("Add", hidden.value, output)
        epsilon = self.config.layer_norm_eps
        value = self.graph.add("LayerNormalization", total, gain, shift, epsilon=epsilon)
        return Tokens(value, hidden.count)

    def _take_texts(self, hidden: Tokens) -> Tokens:
        """Only the tokens that the classifier reads, (1, B, D)."""
        return Tokens(self.graph.add("Gather", hidden.value, "cls_index", axis=1), self.num_texts)

    def _classify(self, hidden: Tokens) -> None:
        add = self.graph.add
        flat = add("Reshape", hidden.value, axes(-1, self.config.hidden_size))
        flat = add("Cast", flat, to=TensorProto.DOUBLE)
        pooled = flat if self.config.pooling == "first" else self._mean(flat)
        logits = add("Gemm", pooled, *self._weights("classifier"), transB=1)
        add("Cast", logits, to=TensorProto.FLOAT, output=CLASSIFY.outputs[0])

    def _mean(self, flat: str) -> str:
        """Each text's mean over its tokens (B, D), from (N, D)."""
        add = self.graph.add
        # A text is named by its row and its number in the row.
        row = add("Unsqueeze", self.graph.add_range(self.attention.rows), axes(1))  # (R, 1)
        first = add("Mul", row, add("Add", self.attention.row_length, axes(1)))
        name = add("Reshape", add("Add", first, "sequence_ids"), axes(-1))  # (N,)
        own = add("Unsqueeze", add("Gather", name, "cls_index"), axes(1))  # (B, 1)
        member = add("Cast", add("Equal", own, name), to=TensorProto.DOUBLE)  # (B, N)
        count = add("ReduceSum", member, axes(1), keepdims=1)
        return add("Div", add("MatMul", member, flat), count)

    def _weights(self, name: str) -> tuple[Weights, Weights]:
        """Weight and bias of a linear layer, gain and shift of a norm."""
        return self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
