"""Which attention weights to answer, what they cost, and how they become bytes.

Letters: L layers, H heads, n tokens of one text; l, h, q the selected layers, heads and queries.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from model.errors import InvalidInputError

Encoding = Literal["float32", "float16", "uint8"]
BYTES_PER_WEIGHT: dict[Encoding, int] = {"float32": 4, "float16": 2, "uint8": 1}


@dataclass(frozen=True, slots=True)
class AttentionSelection:
    """Layers, heads and queries in the order they are answered; queries None means all."""

    layers: tuple[int, ...]
    heads: tuple[int, ...]
    queries: tuple[int, ...] | None
    head_mean: bool
    encoding: Encoding

    def shape(self, num_tokens: int) -> tuple[int, int, int, int]:
        """Layers, heads (1 if averaged), queries and keys of a text of num_tokens."""
        num_heads = 1 if self.head_mean else len(self.heads)
        num_queries = num_tokens if self.queries is None else len(self.queries)
        return len(self.layers), num_heads, num_queries, num_tokens

    def estimate_bytes(self, num_tokens: int) -> int:
        """Bytes of the answer for a text of num_tokens; exact."""
        layers, heads, queries, keys = self.shape(num_tokens)
        rows = layers * heads * queries
        row_max = 4 * rows if self.encoding == "uint8" else 0
        return rows * keys * BYTES_PER_WEIGHT[self.encoding] + row_max

    def check_queries(self, num_tokens: int, name: str) -> None:
        """Refuses a query beyond the text called name."""
        if self.queries and max(self.queries) >= num_tokens:
            raise InvalidInputError(
                f"query {max(self.queries)} is outside {name}, whose tokens are 0 to "
                f"{num_tokens - 1}"
            )


@dataclass(frozen=True, slots=True)
class EncodedAttention:
    """Weights (l, h, q, n) as little-endian bytes, and for uint8 row maxima (l, h, q) float32."""

    shape: tuple[int, int, int, int]
    data: bytes
    row_max: bytes


def choose(asked: Sequence[int], size: int, name: str) -> tuple[int, ...]:
    """The asked indices in their order, or all of size if none is asked.

    Raises:
        InvalidInputError: one is out of range or there twice.
    """
    for index in asked:
        if not 0 <= index < size:
            raise InvalidInputError(f"{name} {index} does not exist: choose from 0 to {size - 1}")
    return distinct(asked, name) if asked else tuple(range(size))


def distinct(asked: Sequence[int], name: str) -> tuple[int, ...]:
    """The asked indices as they are; an InvalidInputError if one is there twice."""
    seen: set[int] = set()
    for index in asked:
        if index in seen:
            raise InvalidInputError(f"{name} {index} is asked for twice: name each once")
        seen.add(index)
    return tuple(asked)


def encode_attention(
    square: npt.NDArray[Any], selection: AttentionSelection
) -> EncodedAttention | None:
    """Cuts the selection out of one text's attentions (L, H, n, n) and writes it as bytes.

    Returns:
        None if a weight is not a number, which is the engine's fault.
    """
    weights = _select(square, selection)  # (l, h, q, n)
    if not np.isfinite(weights.sum()):
        return None
    shape = selection.shape(square.shape[-1])
    if selection.encoding == "uint8":
        levels, row_max = quantize_rows(weights)
        return EncodedAttention(shape, levels.tobytes(), row_max.tobytes())
    kind = "<f4" if selection.encoding == "float32" else "<f2"
    return EncodedAttention(shape, weights.astype(kind, copy=False).tobytes(), b"")


def quantize_rows(
    weights: npt.NDArray[Any],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    """Bytes (..., n) and row maxima (...): weight = byte / 255 * row maximum.

    The error of a weight is at most its row maximum / 510; weights must not be negative.
    """
    row_max = weights.max(axis=-1, keepdims=True)
    scaled = weights / np.where(row_max > 0, row_max, 1)
    scaled *= 255
    return np.rint(scaled, out=scaled).astype(np.uint8), row_max[..., 0].astype("<f4")


def _select(square: npt.NDArray[Any], selection: AttentionSelection) -> npt.NDArray[Any]:
    num_layers, num_heads, num_tokens, _ = square.shape
    weights = _take(square, selection.layers, num_layers, axis=0)
    weights = _take(weights, selection.heads, num_heads, axis=1)
    if selection.queries is not None:
        weights = _take(weights, selection.queries, num_tokens, axis=2)
    return weights.mean(axis=1, keepdims=True) if selection.head_mean else weights


def _take(
    weights: npt.NDArray[Any], chosen: tuple[int, ...], size: int, axis: int
) -> npt.NDArray[Any]:
    if chosen == tuple(range(size)):
        return weights  # all of them in order: a view instead of a copy
    return weights.take(chosen, axis=axis)
