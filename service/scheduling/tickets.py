"""A request on its way through the scheduler, and its texts."""

import asyncio
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from model.errors import HeedfulError
from service.errors import InternalFaultError
from service.request.attention import AttentionSelection
from service.scheduling.running import TextResult


@dataclass(frozen=True, slots=True)
class Outcome:
    """One request's results, in the order of its texts.

    Attributes:
        queue_seconds: from admission to the start of its last run.
        compute_seconds: of its longest run.
    """

    results: list[TextResult]
    queue_seconds: float
    compute_seconds: float


@dataclass(slots=True, eq=False)
class Ticket:
    """One admitted request; deadline in time.monotonic()."""

    future: asyncio.Future[None]
    attention: AttentionSelection | None
    deadline: float
    admitted: float
    results: list[TextResult | None]
    missing: int
    last_start: float = 0.0
    compute_seconds: float = 0.0
    texts: list["Text"] = field(default_factory=list)

    def receive(
        self, text: "Text", result: TextResult | HeedfulError | None, start: float, end: float
    ) -> None:
        """Takes one text's result, None for a fault; tells the caller when it was the last."""
        if self.future.done():
            return  # the caller has left, or was told of a fault
        if not isinstance(result, TextResult):
            self.future.set_exception(result or InternalFaultError())
            return
        self.results[text.place] = result
        self.missing -= 1
        self.last_start = max(self.last_start, start)
        self.compute_seconds = max(self.compute_seconds, end - start)
        if not self.missing:
            self.future.set_result(None)

    @property
    def stage(self) -> str:
        """What the caller is waiting for."""
        return "running" if all(text.started for text in self.texts) else "queued"

    def outcome(self) -> Outcome:
        results = [result for result in self.results if result is not None]
        return Outcome(results, self.last_start - self.admitted, self.compute_seconds)


@dataclass(slots=True, eq=False)
class Text:
    """One text of a ticket."""

    input_ids: Sequence[int]
    ticket: Ticket
    place: int
    num_tokens: int
    with_attention: bool
    started: bool = False


def open_ticket(
    future: asyncio.Future[None],
    encodings: Sequence[Sequence[int]],
    attention: AttentionSelection | None,
    deadline: float | None,
) -> Ticket:
    """A ticket and its texts, admitted now."""
    ticket = Ticket(
        future=future,
        attention=attention,
        deadline=math.inf if deadline is None else deadline,
        admitted=time.monotonic(),
        results=[None] * len(encodings),
        missing=len(encodings),
    )
    ticket.texts = [
        Text(input_ids, ticket, place, len(input_ids), attention is not None)
        for place, input_ids in enumerate(encodings)
    ]
    return ticket


def work_of(texts: Iterable[Text]) -> tuple[int, int]:
    """Tokens of texts, and the sum of their squares: what predictions are made from."""
    lengths = [text.num_tokens for text in texts]
    return sum(lengths), sum(length * length for length in lengths)
