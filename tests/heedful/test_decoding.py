"""Attention bytes against encoders written from the contract's words, without numpy."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful import AnswerError
from heedful.decoding import decode_weights
from heedful.v1 import classifier_pb2 as pb

shapes = st.tuples(*[st.integers(1, 3)] * 3, st.integers(1, 6))


@st.composite
def probability_rows(draw):
    """A shape (L, H, Q, T) and as many rows that sum to 1, as lists of float32 numbers."""
    shape = draw(shapes)
    rows = []
    for _ in range(shape[0] * shape[1] * shape[2]):
        raw = draw(st.lists(st.floats(0.0, 1.0), min_size=shape[3], max_size=shape[3]))
        total = sum(raw) or 1.0
        rows.append([struct.unpack("<f", struct.pack("<f", part / total))[0] for part in raw])
    return shape, rows


def message(shape, encoding, data, row_max=b"") -> pb.Attention:
    return pb.Attention(shape=shape, encoding=encoding, data=data, row_max=row_max)


def flat(rows) -> list[float]:
    return [value for row in rows for value in row]


@given(probability_rows())
def test_float32_arrives_exactly(case) -> None:
    shape, rows = case
    data = struct.pack(f"<{len(flat(rows))}f", *flat(rows))
    weights = decode_weights(message(shape, pb.ATTENTION_ENCODING_FLOAT32, data))
    assert weights.shape == shape
    assert weights.dtype == np.float32
    assert weights.ravel().tolist() == flat(rows)


@given(probability_rows())
def test_float16_is_off_by_at_most_the_promised_error(case) -> None:
    shape, rows = case
    data = struct.pack(f"<{len(flat(rows))}e", *flat(rows))
    weights = decode_weights(message(shape, pb.ATTENTION_ENCODING_FLOAT16, data))
    assert weights.dtype == np.float32
    assert np.abs(weights.ravel() - np.array(flat(rows))).max() <= 2.5e-4


@given(probability_rows())
def test_uint8_is_off_by_at_most_half_a_step_of_its_row(case) -> None:
    shape, rows = case
    tops = [max(row) for row in rows]
    data = bytes(
        round(value / top * 255) if top else 0
        for row, top in zip(rows, tops, strict=True)
        for value in row
    )
    row_max = struct.pack(f"<{len(tops)}f", *tops)
    encoded = message(shape, pb.ATTENTION_ENCODING_UINT8_ROW_MAX, data, row_max)
    weights = decode_weights(encoded).reshape(len(rows), -1)
    for row, decoded, top in zip(rows, weights, tops, strict=True):
        # Half a step, and what float32 arithmetic rounds.
        assert np.abs(decoded - np.array(row)).max() <= top / 510 * 1.00001 + 1e-9


def test_entries_stand_at_layer_head_query_key() -> None:
    shape = (2, 3, 4, 5)
    numbers = [
        1000 * layer + 100 * head + 10 * query + key
        for layer in range(2)
        for head in range(3)
        for query in range(4)
        for key in range(5)
    ]
    data = struct.pack("<120f", *numbers)
    weights = decode_weights(message(shape, pb.ATTENTION_ENCODING_FLOAT32, data))
    assert weights[1, 2, 3, 4] == 1234


def test_float32_is_a_read_only_view_of_the_bytes() -> None:
    weights = decode_weights(message((1, 1, 1, 2), pb.ATTENTION_ENCODING_FLOAT32, bytes(8)))
    assert weights.base is not None
    assert not weights.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        weights[0, 0, 0, 0] = 1


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (message((1, 1, 2), 0, bytes(8)), "4 axes"),
        (message((1, 1, 1, 2), 0, bytes(7)), "7 bytes"),
        (message((1, 1, 1, -2), 0, b""), "do not fill"),
        (message((1, 1, 1, 2), 9, bytes(8)), "upgrade"),
        (message((1, 1, 2, 2), pb.ATTENTION_ENCODING_UINT8_ROW_MAX, bytes(4), bytes(4)), "fill"),
    ],
)
def test_bytes_that_contradict_the_shape_are_refused(wrong, says) -> None:
    with pytest.raises(AnswerError, match=says):
        decode_weights(wrong)
