"""Weights by position and by number, and what an attention says of itself."""

from dataclasses import replace

import numpy as np
import pytest

from heedful import Token


@pytest.fixture
def attention(make_attention):
    """Layers 4 and 2, heads 0 and 3, in the order a caller asked for them."""
    return replace(make_attention(["a", "b"], layers=2, heads=2), layers=(4, 2), heads=(0, 3))


def test_layers_and_heads_are_found_by_their_numbers(attention) -> None:
    assert np.array_equal(attention.layer(2), attention.weights[1])
    assert np.allclose(attention.map(2, 3), attention.weights[1, 1], atol=1e-7)


def test_none_means_the_mean_over_that_axis(attention) -> None:
    weights = attention.weights.astype(np.float64)
    assert np.allclose(attention.map(4), weights[0].mean(axis=0), atol=1e-7)
    assert np.allclose(attention.map(head=3), weights[:, 1].mean(axis=0), atol=1e-7)
    assert np.allclose(attention.mean(), weights.mean(axis=(0, 1)), atol=1e-7)
    assert np.allclose(attention.mean().sum(axis=1), 1, atol=1e-6)


def test_a_number_that_was_not_asked_for_is_named(attention) -> None:
    with pytest.raises(ValueError, match=r"layer 1 is not in this answer, which has \[4, 2\]"):
        attention.layer(1)
    with pytest.raises(ValueError, match="head 2 is not"):
        attention.map(4, 2)


def test_a_head_of_averaged_heads_cannot_be_had(attention) -> None:
    averaged = replace(attention, weights=attention.weights[:, :1], averaged=True)
    assert np.allclose(averaged.map(4), averaged.weights[0, 0], atol=1e-7)
    with pytest.raises(ValueError, match="reduction=None"):
        averaged.map(4, 0)


def test_repr_tells_the_shape(attention) -> None:
    assert repr(attention) == "<Attention 2 layers, 2 heads, 4 queries, 4 keys>"


@pytest.mark.parametrize(
    ("piece", "text", "name"),
    [
        ("[CLS]", "", "[CLS]"),
        ("##ing", "ing", "##ing"),
        ("film", "Film", "Film"),
        ("Ġfilm", " film", " film"),
        ("[UNK]", "🦘", "🦘"),
        ("x", "\x1b[31m", "␛[31m"),
        ("x", "a\u202eb", "a\ufffdb"),
        ("x", "a\nb", "a⏎b"),
        ("x", "👩\u200d👧", "👩\u200d👧"),
    ],
)
def test_a_token_is_named_by_what_can_be_seen(piece, text, name) -> None:
    assert Token(1, piece, text, 0, len(text), 0, not text).name == name
