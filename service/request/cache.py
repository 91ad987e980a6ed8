"""Answers that are kept to be given again: logits by token ids, the least recently used go first.

One cache serves all models of a server; each loaded version has a shelf of its own in it, so that
no version ever finds what another has said, and leaves nothing behind. Touched in the event loop
only.
"""

from array import array
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from service.backends import FloatArray

# What Python takes for one answer beside the bytes of its ids and logits, rounded up.
ENTRY_BYTES = 320
# More answers than this are not thrown away at once (about 1 ms of work).
SLICE = 2000


def key_of(input_ids: Sequence[int]) -> bytes:
    """Token ids as bytes: the ids themselves and no hash of them, or one could stand for two."""
    return array("i", input_ids).tobytes()


class AnswerCache:
    """The bound on all shelves together.

    Attributes:
        num_bytes: what the answers take now; never over the limit.
    """

    def __init__(self, limit: int) -> None:
        """Takes the limit in bytes."""
        self.limit, self.num_bytes = limit, 0
        self._shelves: list[AnswerShelf] = []
        self._clock = 0

    def add_shelf(self, model: str, version: str, precision: str) -> "AnswerShelf":
        """A shelf for a version that was loaded, empty even if it is one loaded anew."""
        shelf = AnswerShelf(self, (model, version, precision))
        self._shelves.append(shelf)
        return shelf

    def tick(self) -> int:
        """The moment of a use, later than all before it."""
        self._clock += 1
        return self._clock

    def make_room(self, num_bytes: int) -> None:
        """Throws out what was used longest ago, whoever's it is, until so much fits."""
        while self.num_bytes + num_bytes > self.limit:
            min(self._shelves, key=lambda shelf: shelf.oldest).drop()

    def remove(self, shelf: "AnswerShelf") -> None:
        """Forgets an empty shelf."""
        if shelf in self._shelves:
            self._shelves.remove(shelf)


class AnswerShelf:
    """The answers of one loaded version.

    Attributes:
        owner: its model, version and precision.
    """

    def __init__(self, cache: AnswerCache, owner: tuple[str, str, str]) -> None:
        self.owner = owner
        self._cache = cache
        # When it was last used, and the logits; the least recently used first.
        self._entries: OrderedDict[bytes, tuple[int, bytes]] = OrderedDict()
        self._closed = False

    @property
    def num_answers(self) -> int:
        return len(self._entries)

    @property
    def oldest(self) -> float:
        """When the answer was used that was unused for longest; infinite if there is none."""
        return next(iter(self._entries.values()))[0] if self._entries else float("inf")

    def get(self, key: bytes) -> FloatArray | None:
        """The logits (C,) that were put, or None; they must not be written to."""
        entry = self._entries.get(key)
        if entry is None or self._closed:
            return None
        self._entries[key] = self._cache.tick(), entry[1]
        self._entries.move_to_end(key)
        return np.frombuffer(entry[1], np.float32)

    def put(self, key: bytes, logits: FloatArray) -> None:
        """Keeps finite logits (C,); what is larger than the cache, or comes too late, is not."""
        data = logits.astype(np.float32, copy=False).tobytes()
        size = _size(key, data)
        if self._closed or size > self._cache.limit:
            return
        if replaced := self._entries.pop(key, None):
            self._cache.num_bytes -= _size(key, replaced[1])
        self._cache.make_room(size)
        self._entries[key] = self._cache.tick(), data
        self._cache.num_bytes += size

    def drop(self) -> None:
        """Throws out the answer that was unused for longest; a KeyError if there is none."""
        key, (_, data) = self._entries.popitem(last=False)
        self._cache.num_bytes -= _size(key, data)

    def close(self) -> bool:
        """Keeps and gives no more, and throws a slice of it away; whether there is more to go.

        Millions of answers at once would hold up every caller.
        """
        self._closed = True
        for _ in range(min(SLICE, len(self._entries))):
            self.drop()
        if not self._entries:
            self._cache.remove(self)
        return bool(self._entries)


def _size(key: bytes, data: bytes) -> int:
    return ENTRY_BYTES + len(key) + len(data)
