"""How good predictions are: accuracy, F1, confusion and calibration, from logits and targets.

Letters: B texts, C classes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from model.bundle import ProblemType

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
CALIBRATION_BINS = 15
# A label of a multi-label text is given when its probability is at least this.
DECISION_THRESHOLD = 0.5


# Scores travel into bundle.json as they are: Any stands for numbers, lists and tables of them.
def score(
    logits: npt.NDArray[Any],
    targets: npt.NDArray[Any],
    labels: Sequence[str],
    problem_type: ProblemType,
) -> dict[str, Any]:
    """All figures of one split.

    Args:
        logits: (B, C).
        targets: (B,) class numbers, or (B, C) of 0 and 1 for multi-label.

    Returns:
        accuracy (for multi-label: of all labels of a text at once), macro_f1, per_class and,
        for single-label, confusion (rows are true classes), nll and ece; for multi-label micro_f1
        and nll.
    """
    scores = np.asarray(logits, dtype=np.float64)
    if problem_type == "multi_label":
        return _score_multi_label(scores, targets.astype(bool), labels)
    figures = score_classes(scores.argmax(1), targets, labels)
    log_probabilities = log_softmax(scores)
    figures["nll"] = float(-log_probabilities[np.arange(len(targets)), targets].mean())
    figures["ece"] = calibration_error(np.exp(log_probabilities), targets)
    return figures


def score_classes(predicted: IntArray, targets: IntArray, labels: Sequence[str]) -> dict[str, Any]:
    """Accuracy, macro F1, per-class table and confusion matrix of class numbers (B,)."""
    confusion = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(confusion, (targets, predicted), 1)
    right = np.diag(confusion)
    per_class = per_class_table(labels, right, confusion.sum(0) - right, confusion.sum(1) - right)
    return {
        "num_texts": len(targets),
        "accuracy": float(right.sum() / len(targets)),
        "macro_f1": float(np.mean([row["f1"] for row in per_class])),
        "per_class": per_class,
        "confusion": confusion.tolist(),
    }


def score_decisions(
    decided: npt.NDArray[np.bool_], targets: npt.NDArray[np.bool_], labels: Sequence[str]
) -> dict[str, Any]:
    """Figures of multi-label decisions (B, C)."""
    right = (decided & targets).sum(0)
    wrong, missed = (decided & ~targets).sum(0), (~decided & targets).sum(0)
    per_class = per_class_table(labels, right, wrong, missed)
    return {
        "num_texts": len(targets),
        "accuracy": float((decided == targets).all(1).mean()),
        "macro_f1": float(np.mean([row["f1"] for row in per_class])),
        "micro_f1": _ratio(2 * right.sum(), 2 * right.sum() + wrong.sum() + missed.sum()),
        "per_class": per_class,
    }


def per_class_table(
    labels: Sequence[str], right: IntArray, wrong: IntArray, missed: IntArray
) -> list[dict[str, Any]]:
    """Precision, recall, F1 and support of each class; 0 where there is nothing to divide by.

    Args:
        right, wrong, missed: (C,) texts rightly given the class, wrongly given it, and not
            given it though they have it.
    """
    return [
        {
            "label": label,
            "precision": _ratio(tp, tp + fp),
            "recall": _ratio(tp, tp + fn),
            "f1": _ratio(2 * tp, 2 * tp + fp + fn),
            "support": int(tp + fn),
        }
        for label, tp, fp, fn in zip(labels, right, wrong, missed, strict=True)
    ]


def calibration_error(probabilities: FloatArray, targets: IntArray) -> float:
    """Expected calibration error: how far confidence is from accuracy, over 15 equal bins."""
    confidence = probabilities.max(1)
    right = probabilities.argmax(1) == targets
    bins = np.minimum((confidence * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    gaps = np.zeros(CALIBRATION_BINS)
    np.add.at(gaps, bins, right - confidence)
    return float(np.abs(gaps).sum() / len(targets))


def log_softmax(logits: FloatArray) -> FloatArray:
    shifted = logits - logits.max(1, keepdims=True)
    result: FloatArray = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return result


def _score_multi_label(
    logits: FloatArray, targets: npt.NDArray[np.bool_], labels: Sequence[str]
) -> dict[str, Any]:
    # sigmoid(x) >= 0.5 exactly where x >= 0.
    figures = score_decisions(logits >= 0.0, targets, labels)
    signed = np.where(targets, -logits, logits)
    figures["nll"] = float(np.logaddexp(0.0, signed).mean())
    return figures


def _ratio(part: Any, whole: Any) -> float:
    return float(part / whole) if whole else 0.0
