"""How much memory answers may take while they are computed, sent and not yet read."""

from service.errors import OverloadedError

RETRY_SECONDS = 1.0


class Reserve:
    """Bytes of attention, from before they are computed until the last has left the server.

    A caller that asks for attention and does not read it takes this and no more from the others;
    plain calls need none of it. For use in one event loop.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._taken = limit, 0

    @property
    def num_bytes(self) -> int:
        """Bytes taken now."""
        return self._taken

    def take(self, num_bytes: int) -> None:
        """Takes some; an OverloadedError if there is not as much left.

        An untouched reserve gives anything: what never fits could only be refused for ever.
        """
        if self._taken and self._taken + num_bytes > self._limit:
            raise OverloadedError("bytes of attention", self._limit, RETRY_SECONDS)
        self._taken += num_bytes

    def give_back(self, num_bytes: int) -> None:
        self._taken -= num_bytes
