"""From logits to labels with probabilities: the one softmax of the server.

Plain Python: for the few labels of a text, numpy would take ten times as long to start.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from model.bundle import ProblemType
from service.backends import FloatArray

APPLIES_FROM = 0.5


@dataclass(slots=True)
class LabelScore:
    """One label's share; applies is None unless a text may have any number of labels."""

    label: str
    index: int
    probability: float
    logit: float
    applies: bool | None


def softmax(logits: Sequence[float]) -> list[float]:
    """Probabilities that sum to 1; finite for any finite logits."""
    # The largest, not the largest in size: exp of anything positive may overflow.
    largest = max(logits)
    powers = [math.exp(logit - largest) for logit in logits]
    total = math.fsum(powers)
    return [power / total for power in powers]


def sigmoid(logits: Sequence[float]) -> list[float]:
    """One probability per logit; finite for any finite logits."""
    return [_sigmoid(logit) for logit in logits]


def _sigmoid(logit: float) -> float:
    small = math.exp(-abs(logit))
    return (1.0 if logit >= 0 else small) / (1.0 + small)


@dataclass(frozen=True, slots=True)
class LabelScorer:
    """Names and orders the labels of one model."""

    labels: Sequence[str]
    problem_type: ProblemType

    def score(
        self, logits: FloatArray, top_k: int = 0, target: int | None = None
    ) -> list[LabelScore]:
        """The top_k labels of one text, most probable first, ties in the order of the labels.

        Args:
            logits: (C,), one per label.
            top_k: how many; 0 means all.
            target: index of a label that is answered in any case, last if it is not among them.
        """
        multi_label = self.problem_type == "multi_label"
        values = logits.tolist()
        probabilities = sigmoid(values) if multi_label else softmax(values)
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
