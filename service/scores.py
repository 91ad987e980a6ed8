"""From logits to labels with probabilities: the one softmax of the server.

Letters: B texts, C classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from model.bundle import ProblemType

Array = npt.NDArray[np.float64]
APPLIES_FROM = 0.5


@dataclass(frozen=True, slots=True)
class LabelScore:
    """One label's share; applies is None unless a text may have any number of labels."""

    label: str
    index: int
    probability: float
    logit: float
    applies: bool | None


def softmax(logits: npt.ArrayLike) -> Array:
    """Probabilities over the last axis, summing to 1; finite for any finite logits."""
    scores = np.asarray(logits, dtype=np.float64)
    # The largest, not the largest in size: exp of anything positive may overflow.
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    probabilities: Array = powers / powers.sum(axis=-1, keepdims=True)
    return probabilities


def sigmoid(logits: npt.ArrayLike) -> Array:
    """One probability per logit; finite for any finite logits."""
    scores = np.asarray(logits, dtype=np.float64)
    small = np.exp(-np.abs(scores))
    probabilities: Array = np.where(scores >= 0, 1.0, small) / (1.0 + small)
    return probabilities


@dataclass(frozen=True, slots=True)
class LabelScorer:
    """Names and orders the labels of one model."""

    labels: Sequence[str]
    problem_type: ProblemType

    def score(
        self, logits: npt.NDArray[Any], top_k: int = 0, target: int | None = None
    ) -> list[LabelScore]:
        """The top_k labels of one text's logits (C,), most probable first, ties in label order.

        Args:
            top_k: how many; 0 means all.
            target: index of a label that is answered in any case, last if it is not among them.
        """
        multi_label = self.problem_type == "multi_label"
        probabilities = (sigmoid(logits) if multi_label else softmax(logits)).tolist()
        values = logits.tolist()
        # sorted is stable, so equal probabilities keep the labels' order.
        order = sorted(range(len(values)), key=lambda index: -probabilities[index])
        chosen = order[: top_k or None]
        if target is not None and target not in chosen:
            chosen.append(target)
        return [
            LabelScore(
                self.labels[index],
                index,
                probabilities[index],
                values[index],
                probabilities[index] >= APPLIES_FROM if multi_label else None,
            )
            for index in chosen
        ]
