"""The requests of one stream: read while there is room, each answered in a task of its own."""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Generic, Protocol, TypeVar

from service.errors import DrainingError

# Answers with attention are large; a caller that reads slowly holds up no more of them than this.
ATTENTION_AT_ONCE = 4
Q = TypeVar("Q")


class StreamContext(Protocol):
    """What we need of grpc.aio.ServicerContext; read gives bytes, or grpc.aio.EOF."""

    def time_remaining(self) -> float | None: ...

    async def read(self) -> Any: ...

    async def write(self, message: bytes) -> None: ...


class Requests(Generic[Q]):
    """Requests are read in a task, and each is answered in a task of its own, begun in their order.

    A request keeps its slot until its answer is on the wire, so that a caller that sends without
    reading is not read from any more, and memory is bounded.

    Attributes:
        deadline: of the whole stream, in time.monotonic(); infinite if it has none.
    """

    def __init__(
        self,
        context: StreamContext,
        *,
        parse: Callable[[bytes], Q],
        respond: Callable[[Q], Coroutine[Any, Any, None]],
        draining: asyncio.Event,
        max_requests: int,
    ) -> None:
        """Takes what makes a request of bytes, and what answers it and puts that on the wire."""
        self._context, self._draining = context, draining
        self._parse, self._respond = parse, respond
        remaining = context.time_remaining()
        self.deadline = math.inf if remaining is None else time.monotonic() + remaining
        self._slots = asyncio.Semaphore(max_requests)
        self._attention_slots = asyncio.Semaphore(ATTENTION_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    def room(self, *, attention: bool) -> AbstractAsyncContextManager[None]:
        """To be held while a request is answered; few with attention at once, first come first."""
        return self._attention_slots if attention else nullcontext()

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
            task = asyncio.create_task(self._respond(self._parse(data)))
            self._tasks.add(task)
            task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._slots.release()
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a write to a caller that has left; gRPC ends the whole call
