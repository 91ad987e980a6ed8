"""One ClassifyStream call: each request is answered when it is ready, whatever came before it."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from google.protobuf.message import DecodeError

from heedful.v1 import classifier_pb2 as pb
from model.errors import HeedfulError, InvalidInputError
from service.errors import OverloadedError
from service.network.reading import Requests, StreamContext
from service.network.status import status_of
from service.request.reserve import Reserve
from service.servicer import Call

MAX_ID_CHARACTERS = 256

# Answers one request as a call of its own would be, or gives the error it ended with.
Answer = Callable[[pb.ClassifyRequest, Call], Awaitable[pb.ClassifyResponse | HeedfulError]]


class Stream:
    """Answers carry their request's id, and come as they finish."""

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
        self._context, self._answer = context, answer
        self._default_timeout, self._reserve = default_timeout, reserve
        self._requests = Requests(
            context,
            parse=_parsed,
            respond=self._respond,
            draining=draining,
            max_requests=max_requests,
        )
        self._writing = asyncio.Lock()

    async def serve(self) -> None:
        """Returns, and raises, as Requests.serve does."""
        await self._requests.serve()

    async def _respond(self, request: pb.ClassifyStreamRequest) -> None:
        seconds = request.timeout_seconds or self._default_timeout
        deadline = min(self._requests.deadline, time.monotonic() + seconds)
        call = Call(deadline=deadline, reserve=self._reserve)
        try:
            async with self._requests.room(attention=request.request.HasField("attention")):
                await self._send(request.id, await self._outcome(request, call))
        finally:
            call.let_go()

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


def _parsed(data: bytes) -> pb.ClassifyStreamRequest:
    try:
        return pb.ClassifyStreamRequest.FromString(data)
    except DecodeError:
        raise InvalidInputError(
            "a message of the stream is not a heedful.v1.ClassifyStreamRequest: its bytes are "
            "malformed, or a text is not UTF-8"
        ) from None


def _fill_error(message: pb.StreamError, error: HeedfulError) -> None:
    status = status_of(error)
    message.code, message.message = status.code.value[0], status.message
    message.reason = status.reason
    if isinstance(error, OverloadedError):
        message.retry_seconds = error.retry_after
