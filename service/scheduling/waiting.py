"""Texts that wait for an engine: bounded, oldest first, company of like length."""

from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, Protocol, TypeVar

# Texts whose lengths fall into the same step count as alike.
LENGTH_STEP = 8


class Waiter(Protocol):
    """What the queue must know of a text.

    Attributes:
        num_tokens: at least 1.
        with_attention: texts of different kinds never share a run.
    """

    @property
    def num_tokens(self) -> int: ...

    @property
    def with_attention(self) -> bool: ...


T = TypeVar("T", bound=Waiter)


@dataclass(slots=True)
class _Lane(Generic[T]):
    """Waiting texts of one kind by age, and the same by length; keys rise with arrival."""

    by_age: OrderedDict[int, T] = field(default_factory=OrderedDict)
    by_length: dict[int, OrderedDict[int, T]] = field(default_factory=dict)
    tokens: int = 0
    squares: int = 0

    def add(self, key: int, text: T) -> None:
        self.tokens += text.num_tokens
        self.squares += text.num_tokens**2
        self.by_age[key] = text
        self.by_length.setdefault(text.num_tokens // LENGTH_STEP, OrderedDict())[key] = text

    def remove(self, key: int) -> T:
        text = self.by_age.pop(key)
        self.tokens -= text.num_tokens
        self.squares -= text.num_tokens**2
        step = text.num_tokens // LENGTH_STEP
        del self.by_length[step][key]
        if not self.by_length[step]:
            del self.by_length[step]
        return text

    def company(self, text: T, room: int) -> list[int]:
        """Keys of texts that fit into room tokens, of the likest length first, then oldest."""
        own = text.num_tokens // LENGTH_STEP
        keys: list[int] = []
        for step in sorted(self.by_length, key=lambda step: (abs(step - own), step)):
            for key, other in self.by_length[step].items():
                if other.num_tokens > room:
                    break
                keys.append(key)
                room -= other.num_tokens
        return keys


class WaitingTexts(Generic[T]):
    """A queue that gives out runs; not safe to share between threads by itself.

    The oldest text is in the next run, whatever its length: a text waits for no more runs than
    there were texts before it.
    """

    def __init__(self, max_texts: int, max_tokens: int) -> None:
        self.max_texts, self.max_tokens = max_texts, max_tokens
        self.num_texts = self.num_tokens = 0
        self._lanes: dict[bool, _Lane[T]] = {False: _Lane(), True: _Lane()}
        self._keys: dict[T, int] = {}
        self._next_key = count()

    def __contains__(self, text: T) -> bool:
        return text in self._keys

    def work(self, with_attention: bool) -> tuple[int, int]:
        """Tokens of the texts of one kind, and the sum of their squares."""
        lane = self._lanes[with_attention]
        return lane.tokens, lane.squares

    def lacks_room(self, num_texts: int, num_tokens: int) -> str | None:
        """What there are too many of, or None if as many more may wait.

        An empty queue takes anything: a request that never fits could only be refused for ever.
        """
        if not self.num_texts:
            return None
        if self.num_texts + num_texts > self.max_texts:
            return "texts"
        if self.num_tokens + num_tokens > self.max_tokens:
            return "tokens"
        return None

    def add(self, text: T) -> None:
        key = next(self._next_key)
        self._keys[text] = key
        self._lanes[text.with_attention].add(key, text)
        self.num_texts += 1
        self.num_tokens += text.num_tokens

    def remove(self, text: T) -> None:
        self._lanes[text.with_attention].remove(self._keys.pop(text))
        self.num_texts -= 1
        self.num_tokens -= text.num_tokens

    def oldest(self) -> T | None:
        fronts = [next(iter(lane.by_age.items())) for lane in self._lanes.values() if lane.by_age]
        return min(fronts, key=lambda front: front[0])[1] if fronts else None

    def take(self, max_tokens: int) -> list[T]:
        """Removes and returns the texts of one run, the oldest first; empty if none waits.

        A text longer than max_tokens runs alone.
        """
        first = self.oldest()
        if first is None:
            return []
        self.remove(first)
        lane = self._lanes[first.with_attention]
        room = max_tokens - first.num_tokens
        company = [lane.by_age[key] for key in lane.company(first, room)] if room > 0 else []
        for text in company:
            self.remove(text)
        return [first, *company]
