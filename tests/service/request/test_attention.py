"""Selecting, pricing and encoding attention."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from model.errors import InvalidInputError
from service.request.attention import (
    AttentionSelection,
    choose,
    distinct,
    encode_attention,
    quantize_rows,
)

L, H, N = 3, 5, 7


def softmaxed(seed: int = 0) -> np.ndarray:
    scores = np.random.default_rng(seed).normal(size=(L, H, N, N)) * 3
    weights = np.exp(scores)
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def decode(encoded, selection: AttentionSelection) -> np.ndarray:
    kind = {"float32": "<f4", "float16": "<f2", "uint8": "u1"}[selection.encoding]
    values = np.frombuffer(encoded.data, kind).reshape(encoded.shape).astype(np.float64)
    if selection.encoding == "uint8":
        values *= np.frombuffer(encoded.row_max, "<f4").reshape(encoded.shape[:3])[..., None] / 255
    return values


def some_of(size: int) -> st.SearchStrategy:
    return st.lists(st.integers(0, size - 1), unique=True, min_size=1).map(tuple)


SELECTIONS = st.builds(
    AttentionSelection,
    layers=some_of(L),
    heads=some_of(H),
    queries=st.none() | some_of(N),
    head_mean=st.booleans(),
    encoding=st.sampled_from(["float32", "float16", "uint8"]),
)


@given(SELECTIONS, st.integers(0, 9))
def test_what_is_selected_comes_back_in_the_asked_order_and_precision(selection, seed) -> None:
    square = softmaxed(seed)
    wanted = square[list(selection.layers)][:, list(selection.heads)]
    if selection.queries is not None:
        wanted = wanted[:, :, list(selection.queries)]
    if selection.head_mean:
        wanted = wanted.mean(axis=1, keepdims=True)
    encoded = encode_attention(square, selection)
    # float16 keeps 11 bits of a weight of at most 1; a byte is half a step of its row's maximum.
    tolerance = {"float32": 1e-7, "float16": 2.5e-4, "uint8": wanted.max() / 510 * 1.0001}
    assert encoded.shape == wanted.shape
    assert np.abs(decode(encoded, selection) - wanted).max() <= tolerance[selection.encoding]


@given(SELECTIONS)
def test_the_estimate_is_exactly_what_is_sent(selection) -> None:
    encoded = encode_attention(softmaxed(), selection)
    assert selection.estimate_bytes(N) == len(encoded.data) + len(encoded.row_max)


@given(
    hnp.arrays(
        np.float32,
        hnp.array_shapes(min_dims=2, max_dims=3, max_side=9),
        elements=st.floats(0, 1, width=32),
    )
)
def test_bytes_are_within_half_a_step_of_their_row_maximum(weights) -> None:
    levels, row_max = quantize_rows(weights)
    back = levels / 255 * row_max[..., None].astype(np.float64)
    assert (np.abs(back - weights) <= row_max[..., None] / 510 * 1.0001).all()


def test_a_row_of_zeros_stays_zero() -> None:
    levels, row_max = quantize_rows(np.zeros((2, 3), np.float32))
    assert not levels.any()
    assert not row_max.any()


def test_a_weight_that_is_not_a_number_is_not_encoded() -> None:
    square = softmaxed()
    square[1, 2, 3, 4] = np.nan
    everything = AttentionSelection(tuple(range(L)), tuple(range(H)), None, False, "uint8")
    assert encode_attention(square, everything) is None


def test_empty_means_all_and_order_is_kept() -> None:
    assert choose([], 3, "layer") == (0, 1, 2)
    assert choose([2, 0], 3, "layer") == (2, 0)


@pytest.mark.parametrize("index", [-1, 3])
def test_an_index_out_of_range_is_refused_with_the_range(index) -> None:
    with pytest.raises(InvalidInputError, match=f"layer {index} does not exist.*0 to 2"):
        choose([index], 3, "layer")


def test_an_index_asked_for_twice_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="query 4 is asked for twice"):
        distinct([4, 1, 4], "query")


def test_a_query_beyond_the_text_is_refused_with_the_range() -> None:
    selection = AttentionSelection((0,), (0,), (6,), False, "float32")
    selection.check_queries(7, "input 0")
    with pytest.raises(InvalidInputError, match=r"query 6 is outside input 2.*0 to 5"):
        selection.check_queries(6, "input 2")
