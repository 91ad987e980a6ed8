"""One engine run: texts are packed, run, and cut out again, in the engine's thread.

Letters: B texts, C classes, R rows, L layers, H heads, T row length.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from model.packing import PackedRows, pack, unpack_attentions
from service.backends import Backend, FloatArray
from service.request.attention import AttentionSelection, EncodedAttention, encode_attention


@dataclass(frozen=True, slots=True)
class TextResult:
    """What the engine said of one text: logits (C,) and, if asked, attention.

    cached says that it was said to an earlier request.
    """

    logits: FloatArray
    attention: EncodedAttention | None = None
    cached: bool = False


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Results in the order of the texts; None where the engine's answer is not a number."""

    results: list[TextResult | None]
    rows: PackedRows


def run_texts(
    backend: Backend,
    texts: Sequence[Sequence[int]],
    selections: Sequence[AttentionSelection] | None,
    pad_token_id: int,
) -> RunOutcome:
    """Runs texts, with one selection of attention for each or without any.

    Raises:
        ValueError: the engine answered another number of texts.
        Exception: whatever the engine raises.
    """
    rows = pack(texts, pad_token_id)
    if selections is None:
        logits, attentions = backend.run(rows), None
    else:
        logits, attentions = backend.run_with_attentions(rows)
    if len(logits) != len(texts):
        raise ValueError(f"the engine answered {len(logits)} texts instead of {len(texts)}")
    finite = np.logical_and.reduce(np.isfinite(logits), axis=1)
    results: list[TextResult | None] = [
        TextResult(text_logits) if good else None
        for text_logits, good in zip(logits, finite, strict=True)
    ]
    if attentions is not None and selections is not None:
        squares = unpack_attentions(rows, attentions)
        for index, (square, selection) in enumerate(zip(squares, selections, strict=True)):
            result, encoded = results[index], encode_attention(square, selection)
            results[index] = TextResult(result.logits, encoded) if result and encoded else None
    return RunOutcome(results, rows)
