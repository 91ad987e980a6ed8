"""Many texts over one call: what is under way, and whose answer just came."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import grpc

from heedful import answers, requests
from heedful.errors import AnswerError, InvalidArgumentError, RequestError
from heedful.requests import ClassifyOptions, Text
from heedful.results import Classification
from heedful.statuses import error_of
from heedful.v1 import classifier_pb2 as pb

# Texts sent and not yet answered, unless the caller wants fewer or more. A server works on at most
# --max-stream-requests of them and lets the others wait on the line.
MAX_IN_FLIGHT = 64
LONGEST_PAUSE_SECONDS = 1.0

# The text's place among those given, and its labels or why there are none.
StreamAnswer: TypeAlias = tuple[int, Classification | RequestError]

_CODES = {code.value[0]: code.name for code in grpc.StatusCode}


@dataclass(slots=True)
class _Sent:
    """A text under way; give_up in time.monotonic()."""

    text: Text
    request: pb.ClassifyStreamRequest
    give_up: float


@dataclass(frozen=True, slots=True)
class Again:
    """The server is full: wait, then send the message again."""

    seconds: float
    request: pb.ClassifyStreamRequest


class Window:
    """The texts that are under way. It speaks to nobody, so that both clients can use it."""

    def __init__(
        self, texts: object, options: ClassifyOptions, *, seconds: float, max_in_flight: int
    ) -> None:
        if max_in_flight < 1:
            raise InvalidArgumentError(
                "INVALID_ARGUMENT", f"max_in_flight must be at least 1, got {max_in_flight}"
            )
        if isinstance(texts, str):
            requests.several(texts)  # says what is wrong with a lone string
        requests.classify_request([], options)  # an option that is wrong is wrong for every text
        self._options, self._seconds, self._max_in_flight = options, seconds, max_in_flight
        self._sent: dict[str, _Sent] = {}
        self._next_index = 0

    @property
    def seconds_to_silence(self) -> float:
        """How long to wait for any answer at all: the server has said something long before."""
        return 2 * self._seconds + 0.5

    @property
    def is_full(self) -> bool:
        return len(self._sent) >= self._max_in_flight

    @property
    def is_empty(self) -> bool:
        return not self._sent

    def send(self, text: Text) -> pb.ClassifyStreamRequest | StreamAnswer:
        """The message to send for the next text, or its answer if it cannot be sent."""
        index = self._next_index
        self._next_index += 1
        try:
            question = requests.classify_request([requests.one(text)], self._options)
        except InvalidArgumentError as error:
            return index, error
        request = pb.ClassifyStreamRequest(
            id=str(index), request=question, timeout_seconds=self._seconds
        )
        self._sent[request.id] = _Sent(text, request, time.monotonic() + self._seconds)
        return request

    def receive(self, response: pb.ClassifyStreamResponse) -> StreamAnswer | Again:
        """The answer, or what to send again because the server is full.

        Raises:
            AnswerError: the server answers what was not asked.
        """
        sent = self._sent.get(response.id)
        if sent is None:
            raise AnswerError(
                f"the server answered a request {response.id!r} that is not under way"
            )
        error = response.error
        if error.retry_seconds > 0:
            pause = min(error.retry_seconds, LONGEST_PAUSE_SECONDS)
            left = sent.give_up - time.monotonic() - pause
            if left > 0:
                sent.request.timeout_seconds = left
                return Again(pause, sent.request)
        del self._sent[response.id]
        if response.HasField("error"):
            name = _CODES.get(error.code, "UNKNOWN")
            failure = error_of(name, error.message, error.reason, error.retry_seconds or None)
            return int(response.id), failure
        return int(response.id), answers.classifications(response.response, [sent.text])[0]


def in_order(found: Iterable[StreamAnswer]) -> Iterator[Classification | RequestError]:
    """The answers in the order of their texts; those that come early are kept until their turn."""
    early: dict[int, Classification | RequestError] = {}
    turn = 0
    for index, answer in found:
        early[index] = answer
        while turn in early:
            yield early.pop(turn)
            turn += 1
