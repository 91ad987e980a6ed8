"""Attention weights of one input: what each token looked at.

L layers, H heads, Q queries, T keys. Rows attend, columns are attended to.
"""

from dataclasses import dataclass

import numpy as np

from heedful.decoding import FloatArray
from heedful.records import LabelScore
from heedful.tokens import Token


@dataclass(frozen=True, eq=False)
class Attention:
    """Weights (L, H, Q, T) in float32, read-only; each row sums to 1 over the keys.

    weights is indexed by position along each axis; layers, heads and queries say which number
    stands at which position, and map() and layer() ask by number.

    Attributes:
        weights: (L, H, Q, T); entry [layer, head, query, key] is how much query attends to key.
        layers: layer numbers along the first axis.
        heads: head numbers along the second axis; those averaged if averaged is true.
        queries: token positions along the third axis.
        tokens: the T keys: all tokens of the input.
        averaged: the server averaged the heads: the second axis has length 1.
        texts: the text, or two of a pair, that the tokens' offsets count in; empty for token ids.
        labels: the answer the weights belong to.
        model: the model that computed them.
        version: its version.
    """

    weights: FloatArray
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    queries: tuple[int, ...]
    tokens: tuple[Token, ...]
    averaged: bool = False
    texts: tuple[str, ...] = ()
    labels: tuple[LabelScore, ...] = ()
    model: str = ""
    version: str = ""

    def layer(self, number: int) -> FloatArray:
        """Weights (H, Q, T) of the layer with this number; a ValueError if it was not asked for."""
        weights: FloatArray = self.weights[self._position(number, self.layers, "layer")]
        return weights

    def map(self, layer: int | None = None, head: int | None = None) -> FloatArray:
        """Weights (Q, T) of one layer and head, by number; None means the mean over all there are.

        Raises:
            ValueError: that layer or head was not asked for, or the heads were averaged.
        """
        weights = self.weights if layer is None else self.layer(layer)[None]  # (L, H, Q, T)
        if head is not None:
            if self.averaged:
                raise ValueError("the server averaged the heads: ask for them with reduction=None")
            position = self._position(head, self.heads, "head")
            weights = weights[:, position : position + 1]  # (L, 1, Q, T)
        mean: FloatArray = weights.mean(axis=(0, 1), dtype=np.float64).astype(np.float32)  # (Q, T)
        return mean

    def mean(self) -> FloatArray:
        """Weights (Q, T), averaged over all layers and heads there are."""
        return self.map()

    def _position(self, number: int, numbers: tuple[int, ...], name: str) -> int:
        if number not in numbers:
            raise ValueError(f"{name} {number} is not in this answer, which has {list(numbers)}")
        return numbers.index(number)

    def __repr__(self) -> str:
        sizes = "layers", "heads", "queries", "keys"
        shape = ", ".join(
            f"{size} {name}" for size, name in zip(self.weights.shape, sizes, strict=True)
        )
        return f"<Attention {shape}{', heads averaged' if self.averaged else ''}>"

    def _repr_html_(self) -> str:
        """The interactive page, for notebooks."""
        from heedful.pictures.notebook import page_in_a_frame

        return page_in_a_frame(self)

    def _repr_png_(self) -> bytes | None:
        """The picture, for notebooks that show no pages; None without matplotlib."""
        from heedful.pictures.notebook import png_or_none

        return png_or_none(self)
