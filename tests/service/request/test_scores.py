"""Logits to labels with probabilities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.request.scores import LabelScorer, sigmoid, softmax

LOGITS = st.lists(st.floats(-(2.0**99), 2.0**99), min_size=1, max_size=9)


@given(LOGITS)
def test_softmax_is_a_distribution_for_any_finite_logits(logits) -> None:
    probabilities = np.array(softmax(logits))
    assert np.isfinite(probabilities).all()
    assert probabilities.sum() == pytest.approx(1.0)
    assert probabilities[int(np.argmax(logits))] == probabilities.max()


@given(LOGITS)
def test_sigmoid_is_between_0_and_1_and_symmetric(logits) -> None:
    values, opposite = sigmoid(logits), sigmoid([-logit for logit in logits])
    assert all(0 <= value <= 1 for value in values)
    assert np.add(values, opposite) == pytest.approx(1.0)


@pytest.mark.parametrize("logits", [[-60.0, 35.0], [30.0, -70.0], [-200.0, 5.0], [1000.0, 999.0]])
def test_softmax_survives_what_overflows_when_the_largest_in_size_is_subtracted(logits) -> None:
    assert softmax(logits)[0] == pytest.approx(1 / (1 + np.exp(min(logits[1] - logits[0], 700))))


def scorer(problem_type="single_label") -> LabelScorer:
    return LabelScorer(["a", "b", "c", "d"], problem_type)


def score(logits, top_k=0, target=None, problem_type="single_label"):
    return scorer(problem_type).score(np.array(logits, np.float32), top_k, target)


def test_labels_come_by_falling_probability_with_ties_in_label_order() -> None:
    assert [item.label for item in score([1, 2, 2, 1])] == ["b", "c", "a", "d"]


def test_top_k_cuts_and_more_than_there_are_is_all() -> None:
    assert [item.label for item in score([1, 4, 3, 2], top_k=2)] == ["b", "c"]
    assert len(score([1, 4, 3, 2], top_k=9)) == 4


def test_the_target_is_answered_whatever_its_rank() -> None:
    assert [item.index for item in score([1, 4, 3, 2], top_k=1, target=0)] == [1, 0]
    assert [item.index for item in score([1, 4, 3, 2], top_k=1, target=1)] == [1]


def test_only_multi_label_models_say_what_applies() -> None:
    assert {item.applies for item in score([1, 2, 3, 4])} == {None}
    decided = score([-1, 0, 2, -3], problem_type="multi_label")
    assert [(item.label, item.applies) for item in decided] == [
        *[("c", True), ("b", True), ("a", False), ("d", False)]
    ]
    assert decided[1].probability == 0.5
