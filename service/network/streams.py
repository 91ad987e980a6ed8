"""One ClassifyStream call: reads while there is room, answers each request when it is ready."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from google.protobuf.message import DecodeError

from heedful.v1 import classifier_pb2 as pb
from model.errors import HeedfulError, InvalidInputError
from service.errors import DrainingError, OverloadedError
from service.network.status import status_of
from service.request.reserve import Reserve
from service.servicer import Call

MAX_ID_CHARACTERS = 256
# Answers with attention are large; a caller that reads slowly holds up no more of them than this.
ATTENTION_AT_ONCE = 4

# Answers one request as a call of its own would be, or gives the error it ended with.
Answer = Callable[[pb.ClassifyRequest, Call], Awaitable[pb.ClassifyResponse | HeedfulError]]


class StreamContext(Protocol):
    """What we need of grpc.aio.ServicerContext; read gives bytes, or grpc.aio.EOF."""

    def time_remaining(self) -> float | None: ...

    async def read(self) -> Any: ...

    async def write(self, message: bytes) -> None: ...


class Stream:
    """Requests are read in a task, and each is answered in a task of its own.

    A request keeps its slot until its answer is on the wire, so that a caller that sends without
    reading is not read from any more, and memory is bounded.
    """

    def __init__(
        self,
        context: StreamContext,
        answer: Answer,
        *,
        draining: asyncio.Event,
        max_requests: int,
        default_timeout: float,
        reserve: Reserve | None = None,
    ) -> None:
        self._context, self._answer, self._draining = context, answer, draining
        self._default_timeout, self._reserve = default_timeout, reserve
        remaining = context.time_remaining()
        self._deadline = math.inf if remaining is None else time.monotonic() + remaining
        self._slots = asyncio.Semaphore(max_requests)
        self._attention_slots = asyncio.Semaphore(ATTENTION_AT_ONCE)
        self._writing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Returns when the caller has sent its last request and all are answered.

        Raises:
            DrainingError: the server is stopping, and what was read is answered.
            InvalidInputError: bytes that are no request; those before them are answered.
        """
        reading = asyncio.create_task(self._read())
        stopping = asyncio.create_task(self._draining.wait())
        try:
            await asyncio.wait({reading, stopping}, return_when=asyncio.FIRST_COMPLETED)
            all_read = reading.done()
            reading.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
            if not all_read:
                raise DrainingError
            reading.result()
        finally:
            for task in (reading, stopping, *self._tasks):
                task.cancel()

    async def _read(self) -> None:
        while True:
            await self._slots.acquire()
            data = await self._context.read()
            if not isinstance(data, bytes):
                return
            try:
                request = pb.ClassifyStreamRequest.FromString(data)
            except DecodeError:
                raise InvalidInputError(
                    "a message of the stream is not a heedful.v1.ClassifyStreamRequest: its bytes "
                    "are malformed, or a text is not UTF-8"
                ) from None
            task = asyncio.create_task(self._respond(request))
            self._tasks.add(task)
            task.add_done_callback(self._forget)

    async def _respond(self, request: pb.ClassifyStreamRequest) -> None:
        seconds = request.timeout_seconds or self._default_timeout
        deadline = min(self._deadline, time.monotonic() + seconds)
        call = Call(deadline=deadline, reserve=self._reserve)
        try:
            if request.request.HasField("attention"):
                async with self._attention_slots:
                    await self._send(request.id, await self._outcome(request, call))
            else:
                await self._send(request.id, await self._outcome(request, call))
        finally:
            call.let_go()
            self._slots.release()

    async def _outcome(
        self, request: pb.ClassifyStreamRequest, call: Call
    ) -> pb.ClassifyResponse | HeedfulError:
        if len(request.id) > MAX_ID_CHARACTERS:
            return InvalidInputError(f"the id is over {MAX_ID_CHARACTERS} characters: shorten it")
        if not request.timeout_seconds >= 0:
            return InvalidInputError(
                f"timeout_seconds is {request.timeout_seconds}: give 0 or more"
            )
        return await self._answer(request.request, call)

    async def _send(self, id_: str, outcome: pb.ClassifyResponse | HeedfulError) -> None:
        message = pb.ClassifyStreamResponse(id=id_[:MAX_ID_CHARACTERS])
        if isinstance(outcome, HeedfulError):
            _fill_error(message.error, outcome)
        else:
            message.response.CopyFrom(outcome)
        async with self._writing:
            await self._context.write(message.SerializeToString())

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a write to a caller that has left; gRPC ends the whole call


def _fill_error(message: pb.StreamError, error: HeedfulError) -> None:
    status = status_of(error)
    message.code, message.message = status.code.value[0], status.message
    message.reason = status.reason
    if isinstance(error, OverloadedError):
        message.retry_seconds = error.retry_after
