"""So much of something a second, for work that may be in vain."""

import time
from collections.abc import Callable


class Allowance:
    """What is not taken is saved for one second and no longer; used in the event loop only."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._clock = per_second, clock
        self._left, self._since = per_second, clock()

    def take(self, amount: float) -> bool:
        """Takes an amount, if so much is there."""
        now = self._clock()
        self._left += (now - self._since) * self._per_second
        self._left, self._since = min(self._left, self._per_second), now
        if amount > self._left:
            return False
        self._left -= amount
        return True

    def give_back(self, amount: float) -> None:
        """Returns what was taken for something that was not in vain."""
        self._left = min(self._left + amount, self._per_second)
