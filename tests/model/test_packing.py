import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.packing import Span, pack, plan_rows, unpack_attentions


def long_tailed_lengths(count: int, seed: int) -> list[int]:
    """The mix of DESIGN: log-normal, mean about 39, at most 180."""
    lengths = np.random.default_rng(seed).lognormal(mean=3.35, sigma=0.8, size=count)
    return np.clip(lengths, 3, 180).astype(int).tolist()


@given(
    lengths=st.lists(st.integers(1, 200), min_size=1, max_size=80),
    limit=st.none() | st.integers(1, 400),
)
def test_packing_loses_and_invents_nothing(lengths, limit) -> None:
    texts = [list(range(1, length + 1)) for length in lengths]
    rows = pack(texts, pad_token_id=0, max_row_length=limit)
    row_length = rows.input_ids.shape[1]
    assert rows.num_tokens == sum(lengths) == (rows.sequence_ids > 0).sum()
    assert row_length <= max(limit or sum(lengths), *lengths)
    for text, span, cls in zip(texts, rows.spans, rows.cls_index, strict=True):
        place = slice(span.start, span.start + span.length)
        assert rows.input_ids[span.row, place].tolist() == text
        assert rows.position_ids[span.row, place].tolist() == list(range(len(text)))
        assert len(set(rows.sequence_ids[span.row, place])) == 1
        assert cls == span.row * row_length + span.start
    padding = rows.sequence_ids == 0
    assert (rows.input_ids[padding] == 0).all()
    for row in rows.sequence_ids:
        numbers = row[row > 0]
        assert (np.diff(numbers) >= 0).all()
        assert set(numbers) == set(range(1, numbers.max() + 1))


def test_rows_by_hand() -> None:
    rows = pack([[7, 8], [1, 2, 3, 4], [9]], pad_token_id=5, max_row_length=4)
    assert rows.input_ids.tolist() == [[1, 2, 3, 4], [7, 8, 9, 5]]
    assert rows.position_ids.tolist() == [[0, 1, 2, 3], [0, 1, 0, 0]]
    assert rows.sequence_ids.tolist() == [[1, 1, 1, 1], [1, 1, 2, 0]]
    assert rows.cls_index.tolist() == [4, 0, 6]
    assert rows.spans == (Span(1, 0, 2), Span(0, 0, 4), Span(1, 2, 1))


@pytest.mark.parametrize("seed", range(20))
def test_padding_of_64_long_tailed_texts_is_at_most_a_tenth(seed) -> None:
    rows = pack([[1] * length for length in long_tailed_lengths(64, seed)])
    assert 1 - rows.num_tokens / rows.num_slots <= 0.10


def test_one_text_is_one_row_without_padding() -> None:
    rows = pack([[3, 4, 5]])
    assert rows.input_ids.tolist() == [[3, 4, 5]]
    assert rows.num_slots == rows.num_tokens == 3


def test_short_texts_are_not_packed_into_one_very_long_row() -> None:
    """Attention's cost grows with the row squared: 64 texts of 20 tokens, not one row of 1280."""
    assert len(plan_rows([20] * 64)) > 8


@given(st.lists(st.integers(1, 90), min_size=1, max_size=40))
def test_the_plan_is_deterministic(lengths) -> None:
    assert plan_rows(lengths) == plan_rows(list(lengths))


def test_squares_are_cut_where_the_texts_lie() -> None:
    rows = pack([[1, 1], [1, 1, 1]], max_row_length=5)
    attentions = np.arange(2 * 5 * 5).reshape(1, 2, 1, 5, 5)
    first, second = unpack_attentions(rows, attentions)
    assert first.shape == (2, 1, 2, 2)
    assert first[0, 0].tolist() == [[18, 19], [23, 24]]
    assert second[0, 0].tolist() == [[0, 1, 2], [5, 6, 7], [10, 11, 12]]


@pytest.mark.parametrize("lengths", [[], [3, 0]])
def test_nothing_to_pack_is_refused(lengths) -> None:
    with pytest.raises(ValueError, match="text"):
        plan_rows(lengths)
