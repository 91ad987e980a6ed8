"""Learns from the running engine how long a run takes, from its texts' tokens and their squares.

A text of n tokens counts n tokens and n * n squares: the first for the layers, the second for
attention. What packing adds is part of what is learned.
"""

from dataclasses import dataclass

# What a run still counts after each later one: about the last thirty matter.
FORGETTING = 0.97
# A run that took this many times what was predicted, as on a stalled machine, counts as no more.
MOST_SURPRISE = 4.0
# Below this share of its greatest value the determinant says that all runs were alike.
ALIKE = 1e-9


@dataclass(slots=True)
class _Sums:
    """Weighted sums of least squares: x tokens, z squares, y seconds."""

    xx: float = 0.0
    xz: float = 0.0
    zz: float = 0.0
    xy: float = 0.0
    zy: float = 0.0

    def fade(self, factor: float) -> None:
        self.xx, self.xz, self.zz = self.xx * factor, self.xz * factor, self.zz * factor
        self.xy, self.zy = self.xy * factor, self.zy * factor

    def add(self, tokens: int, squares: int, seconds: float) -> None:
        weight = 1.0 / tokens  # the error of a run counts by its share of the tokens
        self.xx += weight * tokens * tokens
        self.xz += weight * tokens * squares
        self.zz += weight * squares * squares
        self.xy += weight * tokens * seconds
        self.zy += weight * squares * seconds

    def plus(self, other: "_Sums") -> "_Sums":
        return _Sums(
            self.xx + other.xx,
            self.xz + other.xz,
            self.zz + other.zz,
            self.xy + other.xy,
            self.zy + other.zy,
        )


class RunCost:
    """Predicted seconds of engine runs; nothing learned yet predicts 0. Not thread-safe.

    Attributes:
        per_token, per_square: seconds, never negative.
    """

    def __init__(self) -> None:
        self.per_token = self.per_square = 0.0
        self._known, self._recent = _Sums(), _Sums()

    def seconds(self, tokens: int, squares: int) -> float:
        """Of texts with so many tokens and squares in all."""
        return self.per_token * tokens + self.per_square * squares

    def anchor(self, tokens: int, squares: int, seconds: float) -> None:
        """Takes a run of the warm-up, which is never forgotten and weighs as one run.

        It keeps lengths predictable that nobody has sent for long.
        """
        self._known.add(tokens, squares, seconds)
        self._fit()

    def learn(self, tokens: int, squares: int, seconds: float) -> None:
        """Takes a run that was timed."""
        if predicted := self.seconds(tokens, squares):
            seconds = min(seconds, MOST_SURPRISE * predicted)
        self._recent.fade(FORGETTING)
        self._recent.add(tokens, squares, seconds)
        self._fit()

    def _fit(self) -> None:
        sums = self._known.plus(self._recent)
        determinant = sums.xx * sums.zz - sums.xz * sums.xz
        if determinant > ALIKE * sums.xx * sums.zz:
            per_token = (sums.xy * sums.zz - sums.zy * sums.xz) / determinant
            per_square = (sums.zy * sums.xx - sums.xy * sums.xz) / determinant
            if per_token >= 0 and per_square >= 0:
                self.per_token, self.per_square = per_token, per_square
                return
        # The best without negative numbers then explains everything with one of the two.
        if sums.xy * sums.xy / sums.xx >= sums.zy * sums.zy / sums.zz:
            self.per_token, self.per_square = sums.xy / sums.xx, 0.0
        else:
            self.per_token, self.per_square = 0.0, sums.zy / sums.zz
