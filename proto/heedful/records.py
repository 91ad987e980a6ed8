"""The small records that answers are made of."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LabelScore:
    """One label's share.

    Attributes:
        label: the label's name.
        index: its place among the model's labels, from 0.
        probability: from 0 to 1.
        logit: the score before softmax or sigmoid.
        applies: whether the label applies; None unless the model is multi-label.
    """

    label: str
    index: int
    probability: float
    logit: float
    applies: bool | None = None


@dataclass(frozen=True, slots=True)
class TruncationLoss:
    """What truncation took away: tokens before it, tokens dropped, code points lost with them."""

    original_tokens: int
    lost_tokens: int
    lost_characters: int


@dataclass(frozen=True, slots=True)
class Timings:
    """Where the time of the whole request went on the server, in seconds."""

    tokenize_seconds: float
    queue_seconds: float
    compute_seconds: float
    total_seconds: float
