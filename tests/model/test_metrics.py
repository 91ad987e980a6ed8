"""Figures agree with scikit-learn's, and with hand-worked cases."""

import warnings

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, log_loss
from sklearn.metrics import precision_recall_fscore_support as reference

from model.training.metrics import calibration_error, score, score_classes

LABELS = ["a", "b", "c", "d"]


def made_up(seed: int, num_texts: int = 97) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    # Class d never occurs and c is rare: what is divided by is sometimes 0.
    targets = rng.choice(3, size=num_texts, p=[0.6, 0.35, 0.05])
    logits = rng.normal(size=(num_texts, 4)) * 3
    logits[:, 3] -= 20
    logits[np.arange(num_texts), targets] += 1.5
    return logits.astype(np.float32), targets


@pytest.mark.parametrize("seed", range(3))
def test_single_label_figures_are_those_of_scikit_learn(seed) -> None:
    logits, targets = made_up(seed)
    figures = score(logits, targets, LABELS, "single_label")
    predicted = logits.argmax(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = reference(targets, predicted, labels=range(4), zero_division=0)
    assert figures["accuracy"] == pytest.approx(accuracy_score(targets, predicted))
    assert figures["macro_f1"] == pytest.approx(expected[2].mean())
    assert figures["confusion"] == confusion_matrix(targets, predicted, labels=range(4)).tolist()
    for index, row in enumerate(figures["per_class"]):
        got = [row[name] for name in ("precision", "recall", "f1", "support")]
        assert got == pytest.approx([part[index] for part in expected])
    probabilities = np.exp(logits.astype(float))
    probabilities /= probabilities.sum(1, keepdims=True)
    assert figures["nll"] == pytest.approx(log_loss(targets, probabilities, labels=range(4)))


def test_multi_label_figures_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(83, 4))
    targets = (rng.random((83, 4)) < 0.3).astype(np.float32)
    figures = score(logits, targets, LABELS, "multi_label")
    decided = logits >= 0
    assert figures["accuracy"] == pytest.approx(accuracy_score(targets, decided))
    assert figures["macro_f1"] == pytest.approx(f1_score(targets, decided, average="macro"))
    assert figures["micro_f1"] == pytest.approx(f1_score(targets, decided, average="micro"))
    probability = 1 / (1 + np.exp(-logits))
    nll = -(targets * np.log(probability) + (1 - targets) * np.log(1 - probability)).mean()
    assert figures["nll"] == pytest.approx(nll)


def test_calibration_error_of_a_case_worked_by_hand() -> None:
    probabilities = np.array([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [1.0, 0.0]])
    targets = np.array([0, 1, 0, 0])
    # Bins: two at 0.9 of which one is right, one at 0.6 right, one at 1.0 right.
    assert calibration_error(probabilities, targets) == pytest.approx((0.8 + 0.4 + 0.0) / 4)


def test_rows_of_the_confusion_matrix_are_the_true_classes() -> None:
    figures = score_classes(np.array([1, 1, 0]), np.array([0, 0, 0]), ["x", "y"])
    assert figures["confusion"] == [[1, 2], [0, 0]]
    assert figures["per_class"][0]["recall"] == pytest.approx(1 / 3)
