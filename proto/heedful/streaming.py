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
    """Texts under way in one request, each with its place; give_up in time.monotonic()."""

    texts: list[tuple[int, Text]]
    request: pb.ClassifyStreamRequest
    give_up: float


@dataclass(frozen=True, slots=True)
class Again:
    """Messages to send, after a while if the server is full."""

    seconds: float
    requests: list[pb.ClassifyStreamRequest]


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
        # Few requests cost less than many; four of them keep a server busy. Attention is large.
        self._per_request = 1 if options.get("attention") else max(1, min(16, max_in_flight // 4))
        self._sent: dict[str, _Sent] = {}
        self._group: list[tuple[int, Text]] = []
        self._next_index = self._num_texts = 0

    @property
    def seconds_to_silence(self) -> float:
        """How long to wait for any answer at all: the server has said something long before."""
        return 2 * self._seconds + 0.5

    @property
    def is_full(self) -> bool:
        return self._num_texts >= self._max_in_flight

    @property
    def is_empty(self) -> bool:
        return not self._num_texts

    def add(self, text: Text) -> StreamAnswer | None:
        """Takes the next text; gives its answer if it cannot be sent."""
        index = self._next_index
        self._next_index += 1
        try:
            requests.classify_request([requests.one(text)], self._options)
        except InvalidArgumentError as error:
            return index, error
        self._group.append((index, text))
        self._num_texts += 1
        return None

    def message(self, *, rest: bool) -> pb.ClassifyStreamRequest | None:
        """What to send now: texts that fill a request, or with rest whatever there is."""
        if not self._group or (len(self._group) < self._per_request and not rest):
            return None
        group, self._group = self._group, []
        return self._send(group, time.monotonic() + self._seconds)

    def receive(self, response: pb.ClassifyStreamResponse) -> list[StreamAnswer] | Again:
        """The answers, or what to send again: later if the server is full, else one by one.

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
                return Again(pause, [sent.request])
        del self._sent[response.id]
        if response.HasField("error"):
            if len(sent.texts) > 1:  # one of them is to blame
                return Again(0.0, [self._send([text], sent.give_up) for text in sent.texts])
            name = _CODES.get(error.code, "UNKNOWN")
            failure = error_of(name, error.message, error.reason, error.retry_seconds or None)
            self._num_texts -= 1
            return [(sent.texts[0][0], failure)]
        self._num_texts -= len(sent.texts)
        places, texts = zip(*sent.texts, strict=True)
        return list(zip(places, answers.classifications(response.response, texts), strict=True))

    def _send(self, group: list[tuple[int, Text]], give_up: float) -> pb.ClassifyStreamRequest:
        question = requests.classify_request([text for _, text in group], self._options)
        left = max(give_up - time.monotonic(), 0.001)
        request = pb.ClassifyStreamRequest(
            id=str(group[0][0]), request=question, timeout_seconds=left
        )
        self._sent[request.id] = _Sent(group, request, give_up)
        return request


def in_order(found: Iterable[StreamAnswer]) -> Iterator[Classification | RequestError]:
    """The answers in the order of their texts; those that come early are kept until their turn."""
    early: dict[int, Classification | RequestError] = {}
    turn = 0
    for index, answer in found:
        early[index] = answer
        while turn in early:
            yield early.pop(turn)
            turn += 1
