"""Attention of the int8 graph, whose sums come out the same at any place in a row.

Letters: R rows, T row length, N = R*T tokens, B texts, Q queries a row, H heads, K head size,
D hidden, P parts of a head's columns.
"""

import numpy as np

from export.graph_writer import GraphWriter, axes
from export.int8_operators import QuantizedTokens, Weights, linear
from model.config import EncoderConfig

MAX_COLUMNS = 16  # of one product with the values: its sums are of up to 1,024 keys in one go then
SUM_COLUMNS = 4  # a product with a single column would add up in another order
MASKED = np.finfo(np.float32).min


class Attention:
    """What the attention of all layers shares: the shape of the rows and who sees whom.

    Its methods return the context and what is still to be added to each token of it (D,): the
    values' shift is in every context as it is, since probabilities sum to 1. The keys' shift is
    left out, since it changes all scores of a query alike, and softmax does not see that.
    """

    def __init__(self, graph: GraphWriter, config: EncoderConfig) -> None:
        self.graph, self.config = graph, config
        self.rows = graph.add("Shape", "sequence_ids", start=0, end=1)
        self.row_length = graph.add("Shape", "sequence_ids", start=1, end=2)
        self.keys = graph.add("Unsqueeze", "sequence_ids", axes(1, 2, 3))  # (R, 1, 1, 1, T)
        ones = graph.add("Concat", self.row_length, axes(SUM_COLUMNS), axis=0)
        self.ones = graph.add("Expand", np.float32(1), ones)  # (T, SUM_COLUMNS)
        self.bias = self._bias("sequence_ids", causal=config.causal)

    def of_all(
        self, tokens: QuantizedTokens, weight: Weights, bias: Weights
    ) -> tuple[str, Weights]:
        """The context of every token, (1, N, D); weight is (3D, D), bias (3D,)."""
        query_shift, _, value_shift = np.split(bias, 3)
        factor = np.repeat([self._scale, 1.0, 1.0], self.config.hidden_size)
        heads = self._heads(linear(self.graph, tokens, weight, factor=factor), self.row_length, 3)
        query, key, value = self.graph.add_split(heads, 3, axis=2)
        shift = (query_shift * self._scale).astype(np.float32)
        query = self.graph.add("Add", query, shift.reshape(-1, 1, self.config.head_size))
        return self._context(query, key, value, self.bias), value_shift

    def of_texts(
        self, tokens: QuantizedTokens, weight: Weights, bias: Weights
    ) -> tuple[str, Weights]:
        """The context of the tokens at cls_index alone, (1, B, D): no others are read after it."""
        add = self.graph.add
        query_weight, others = np.split(weight, [self.config.hidden_size])
        query_shift, _, value_shift = np.split(bias, 3)
        length, places, slots = self._queries()
        asking = QuantizedTokens(
            add("Gather", tokens.value, places, axis=1),
            add("Gather", tokens.scale, places, axis=1),
            tokens.zero,
        )
        shift, scale = query_shift * self._scale, self._scale
        query = self._heads(linear(self.graph, asking, query_weight, shift, scale), length, 1)
        heads = self._heads(linear(self.graph, tokens, others), self.row_length, 2)
        key, value = self.graph.add_split(heads, 2, axis=2)
        names = add("Gather", add("Reshape", "sequence_ids", axes(-1)), places)
        names = add("Reshape", names, add("Concat", self.rows, length, axis=0))  # (R, Q)
        context = self._context(query, key, value, self._bias(names))
        return add("Gather", context, slots, axis=1), value_shift

    @property
    def _scale(self) -> float:
        return float(self.config.head_size**-0.5)

    def _queries(self) -> tuple[str, str, str]:
        """One query a text in a table of R rows.

        Returns:
            Q, which is one more than there are texts in any row: a product with a single row would
            add up in another order. The token of each query (R*Q,), the first one where a row has
            fewer texts. And each text's place in that list (B,).
        """
        add = self.graph.add
        most = add("ReduceMax", "sequence_ids", keepdims=0)
        length = add("Add", most, axes(1))
        number = add("Gather", add("Reshape", "sequence_ids", axes(-1)), "cls_index")  # from 1
        row = add("Div", "cls_index", self.row_length)
        slots = add("Sub", add("Add", add("Mul", row, length), number), axes(1))
        unused = add("Expand", np.int64(0), add("Mul", self.rows, length))
        return length, add("ScatterElements", unused, slots, "cls_index", axis=0), slots

    def _bias(self, queries: str, causal: bool = False) -> str:
        """0 where query and key belong together, a huge negative elsewhere, (R, 1, 1, Q, T)."""
        add = self.graph.add
        seen = add("Equal", add("Unsqueeze", queries, axes(1, 2, 4)), self.keys)
        if causal:
            column = self.graph.add_range(self.row_length)  # (T,)
            seen = add(
                "And", seen, add("GreaterOrEqual", add("Unsqueeze", column, axes(1)), column)
            )
        return add("Where", seen, np.float32(0), MASKED)

    def _context(self, query: str, key: str, value: str, bias: str) -> str:
        """(1, R*Q, D) from query (R, Q, H, 1, K) and key and value (R, T, H, 1, K)."""
        add, config = self.graph.add, self.config
        query = add("Transpose", query, perm=[0, 2, 3, 1, 4])  # (R, H, 1, Q, K)
        key = add("Transpose", key, perm=[0, 2, 3, 4, 1])  # (R, H, 1, K, T)
        scores = add("Add", add("MatMul", query, key), bias)  # (R, H, 1, Q, T)
        largest = add("ReduceMax", scores, axes(-1), keepdims=1)
        exponentials = add("Exp", add("Sub", scores, largest))
        sums = add("MatMul", exponentials, self.ones)  # (R, H, 1, Q, SUM_COLUMNS)
        sums = add("Slice", sums, axes(0), axes(1), axes(-1))
        columns = columns_at_once(config.head_size)
        parts = (config.num_attention_heads, config.head_size // columns, columns)
        value = self._view(value, self.row_length, *parts)
        value = add("Transpose", value, perm=[0, 2, 3, 1, 4])  # (R, H, P, T, K/P)
        context = add("Div", add("MatMul", exponentials, value), sums)  # (R, H, P, Q, K/P)
        context = add("Transpose", context, perm=[0, 3, 1, 2, 4])
        return add("Reshape", context, axes(1, -1, config.hidden_size))

    def _heads(self, value: str, length: str, groups: int) -> str:
        """(1, R*length, groups*D) as (R, length, groups*H, 1, K)."""
        heads = groups * self.config.num_attention_heads
        return self._view(value, length, heads, 1, self.config.head_size)

    def _view(self, value: str, length: str, *sizes: int) -> str:
        shape = self.graph.add("Concat", self.rows, length, axes(*sizes), axis=0)
        return self.graph.add("Reshape", value, shape)


def columns_at_once(head_size: int) -> int:
    """The most columns of a head, up to MAX_COLUMNS, that divide it; all, where only 1 does."""
    divisors = [size for size in range(2, MAX_COLUMNS + 1) if head_size % size == 0]
    return max(divisors, default=head_size)
