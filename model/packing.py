"""Packs texts end to end into rows, and cuts them out again. Training and serving share it.

Letters: R rows, T row length, B texts.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

# Attention's work per token grows with the row, the rest does not: at this row length the two
# cost the same. Measured with benchmarks/packing.py: 540 for tiny, 1,400 for small, 2,400 for base;
# only the order of magnitude matters.
ATTENTION_PARITY_LENGTH = 1024
# Row lengths tried beside the longest text's, as multiples of it.
STRETCHES = (1.0, 1.25, 1.5, 2.0, 3.0)
# A plan with less padding than this is not worth improving.
GOOD_ENOUGH_PADDING = 0.02


@dataclass(frozen=True, slots=True)
class Span:
    """Where one text lies in the rows: row index, first column, number of tokens."""

    row: int
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Texts packed into rows, ready for an engine.

    Attributes:
        input_ids: (R, T), padded with the pad id.
        position_ids: (R, T), restarting at 0 at each text.
        sequence_ids: (R, T), numbering a row's texts from 1; 0 is padding.
        cls_index: (B,), each text's first token in the flattened rows, in the order packed.
        spans: one per text, in the order packed.
    """

    input_ids: IntArray
    position_ids: IntArray
    sequence_ids: IntArray
    cls_index: IntArray
    spans: tuple[Span, ...]

    @property
    def num_tokens(self) -> int:
        """Real tokens, padding not counted."""
        return sum(span.length for span in self.spans)

    @property
    def num_slots(self) -> int:
        """Real tokens and padding: R * T."""
        return int(self.input_ids.size)


def plan_cost(num_rows: int, row_length: int) -> float:
    """Relative cost of running (num_rows, row_length), in tokens of a short row."""
    return num_rows * row_length * (1.0 + row_length / ATTENTION_PARITY_LENGTH)


def plan_rows(lengths: Sequence[int], max_row_length: int | None = None) -> list[list[int]]:
    """Groups texts into rows, cheapest of a few row lengths; deterministic.

    Args:
        lengths: tokens of each text, at least 1 each.
        max_row_length: rows grow no longer than this, or than the longest text if that is longer.

    Returns:
        For each row the indices of its texts, left to right; every index appears once.
    """
    if not lengths:
        raise ValueError("no texts to pack")
    if min(lengths) < 1:
        raise ValueError("every text needs at least one token")
    longest, total = max(lengths), sum(lengths)
    limit = total if max_row_length is None else min(total, max(max_row_length, longest))
    by_length = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    best: list[list[int]] = []
    best_cost = float("inf")
    for row_length in sorted({min(int(longest * stretch), limit) for stretch in STRETCHES}):
        rows = _fill_rows(by_length, lengths, row_length)
        used = max(sum(lengths[index] for index in row) for row in rows)
        cost = plan_cost(len(rows), used)
        if cost < best_cost:
            best, best_cost = rows, cost
        if total >= (1.0 - GOOD_ENOUGH_PADDING) * len(rows) * used:
            break
    return best


def _fill_rows(order: Sequence[int], lengths: Sequence[int], row_length: int) -> list[list[int]]:
    """Best fit, longest first: each text goes where it leaves the least room."""
    rows: list[list[int]] = []
    room: list[tuple[int, int]] = []  # (free tokens, row), ascending
    for index in order:
        at = bisect_left(room, (lengths[index], -1))
        if at == len(room):
            free, row = row_length, len(rows)
            rows.append([])
        else:
            free, row = room.pop(at)
        rows[row].append(index)
        insort(room, (free - lengths[index], row))
    return rows


def pack(
    texts: Sequence[Sequence[int]], pad_token_id: int = 0, max_row_length: int | None = None
) -> PackedRows:
    """Packs token ids of texts into rows; the answers come back in the order of `texts`."""
    plan = plan_rows([len(text) for text in texts], max_row_length)
    row_length = max(sum(len(texts[index]) for index in row) for row in plan)
    shape = (len(plan), row_length)
    input_ids = np.full(shape, pad_token_id, dtype=np.int64)
    position_ids = np.zeros(shape, dtype=np.int64)
    sequence_ids = np.zeros(shape, dtype=np.int64)
    cls_index = np.zeros(len(texts), dtype=np.int64)
    spans: list[Span | None] = [None] * len(texts)
    for row, indices in enumerate(plan):
        start = 0
        for number, index in enumerate(indices, 1):
            end = start + len(texts[index])
            input_ids[row, start:end] = texts[index]
            position_ids[row, start:end] = np.arange(end - start)
            sequence_ids[row, start:end] = number
            cls_index[index] = row * row_length + start
            spans[index] = Span(row, start, end - start)
            start = end
    return PackedRows(
        input_ids=input_ids,
        position_ids=position_ids,
        sequence_ids=sequence_ids,
        cls_index=cls_index,
        spans=tuple(span for span in spans if span is not None),
    )


def unpack_attentions(rows: PackedRows, attentions: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """Cuts each text's (L, H, n, n) square out of attentions (R, L, H, T, T), in packed order."""
    for span in rows.spans:
        end = span.start + span.length
        yield attentions[span.row, :, :, span.start : end, span.start : end]
