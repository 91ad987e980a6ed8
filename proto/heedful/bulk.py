"""Asks about many texts over one call: the window is filled, an answer is taken, and so on."""

import asyncio
import threading
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import grpc
import grpc.aio

from heedful.errors import AnswerError, DeadlineExceededError
from heedful.requests import Text
from heedful.statuses import request_error
from heedful.streaming import Again, StreamAnswer, Window
from heedful.v1 import classifier_pb2 as pb

LOST_MESSAGE = "Internal error from Core"
STATUS_SECONDS = 1.0

Requests = SimpleQueue[pb.ClassifyStreamRequest | None]


def ask(method: Any, texts: Iterable[Text], window: Window, target: str) -> Iterator[StreamAnswer]:
    """Answers as they come; texts are taken in the thread that takes the answers."""
    outgoing: Requests = SimpleQueue()
    call = method(iter(outgoing.get, None))
    patience = _Patience(window.seconds_to_silence, call)
    try:
        for text in texts:
            refused = window.add(text)
            if refused:
                yield refused
            if message := window.message(rest=window.is_full):
                outgoing.put(message)
            while window.is_full:
                yield from _take(call, patience, window, outgoing, target)
        if message := window.message(rest=True):
            outgoing.put(message)
        while not window.is_empty:
            yield from _take(call, patience, window, outgoing, target)
    finally:
        outgoing.put(None)
        patience.end()
        call.cancel()  # changes nothing if it has ended


def _take(
    call: Any, patience: "_Patience", window: Window, outgoing: Requests, target: str
) -> Iterator[StreamAnswer]:
    """The next answer, or nothing if a text has to be sent again."""
    try:
        with patience.waiting():
            response = next(call, None)
    except grpc.RpcError as error:
        if patience.is_over:
            raise _silent(window, target) from None
        raise request_error(error, target) from None
    found = window.receive(_there(response))
    if isinstance(found, Again):
        time.sleep(found.seconds)
        for request in found.requests:
            outgoing.put(request)
    else:
        yield from found


class _Patience:
    """Cancels a call on which nothing is heard; gRPC's own deadlines are for whole calls.

    Attributes:
        is_over: whether the call was cancelled.
    """

    def __init__(self, seconds: float, call: Any) -> None:
        self.is_over = False
        self._seconds, self._call = seconds, call
        self._since: float | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._watch, name="heedful-patience", daemon=True).start()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Time counts only inside: a caller may take as long as it likes between answers."""
        self._since = time.monotonic()
        try:
            yield
        finally:
            self._since = None

    def end(self) -> None:
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(self._seconds / 10):
            since = self._since
            if since is not None and time.monotonic() - since > self._seconds:
                self.is_over = True
                self._call.cancel()
                return


async def ask_async(
    method: Any, texts: Iterable[Text] | AsyncIterable[Text], window: Window, target: str
) -> AsyncIterator[StreamAnswer]:
    """Answers as they come, in asyncio."""
    outgoing: asyncio.Queue[pb.ClassifyStreamRequest | None] = asyncio.Queue()
    call = method(_requests(outgoing))
    try:
        async for text in _each(texts):
            refused = window.add(text)
            if refused:
                yield refused
            if message := window.message(rest=window.is_full):
                outgoing.put_nowait(message)
            while window.is_full:
                async for found in _take_async(call, window, outgoing, target):
                    yield found
        if message := window.message(rest=True):
            outgoing.put_nowait(message)
        while not window.is_empty:
            async for found in _take_async(call, window, outgoing, target):
                yield found
    finally:
        outgoing.put_nowait(None)
        call.cancel()


async def _take_async(
    call: Any,
    window: Window,
    outgoing: asyncio.Queue[pb.ClassifyStreamRequest | None],
    target: str,
) -> AsyncIterator[StreamAnswer]:
    try:
        async with asyncio.timeout(window.seconds_to_silence):
            response = await call.read()
    except TimeoutError:
        raise _silent(window, target) from None
    except grpc.RpcError as error:
        said = await _real(error, call)
        if said.details() == LOST_MESSAGE:  # the server had nothing more to say
            raise _too_early() from None
        raise request_error(said, target) from None
    found = window.receive(_there(None if response is grpc.aio.EOF else response))
    if isinstance(found, Again):
        await asyncio.sleep(found.seconds)
        for request in found.requests:
            outgoing.put_nowait(request)
    else:
        for answer in found:
            yield answer


async def _real(error: grpc.RpcError, call: Any) -> grpc.RpcError:
    """What the server said: grpc.aio puts a word of its own before it if a message was on its way.

    The server's status is there an instant later, and replaces that word.
    """
    end = time.monotonic() + STATUS_SECONDS
    while error.details() == LOST_MESSAGE and time.monotonic() < end:
        await asyncio.sleep(0.005)
        error = grpc.aio.AioRpcError(
            await call.code(),
            await call.initial_metadata(),
            await call.trailing_metadata(),
            await call.details(),
        )
    return error


async def _requests(
    outgoing: asyncio.Queue[pb.ClassifyStreamRequest | None],
) -> AsyncIterator[pb.ClassifyStreamRequest]:
    while (request := await outgoing.get()) is not None:
        yield request


async def _each(texts: Iterable[Text] | AsyncIterable[Text]) -> AsyncIterator[Text]:
    if isinstance(texts, AsyncIterable):
        async for text in texts:
            yield text
    else:
        for text in texts:
            yield text


def _there(response: pb.ClassifyStreamResponse | None) -> pb.ClassifyStreamResponse:
    if response is None:
        raise _too_early()
    return response


def _silent(window: Window, target: str) -> DeadlineExceededError:
    return DeadlineExceededError(
        "DEADLINE_EXCEEDED",
        f"{target} answered nothing on the stream for {window.seconds_to_silence:g} s: "
        "give more time with timeout",
    )


def _too_early() -> AnswerError:
    return AnswerError("the server ended the stream with texts unanswered")
