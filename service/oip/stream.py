"""One ModelStreamInfer call: requests are read and answered one after the other, in their order."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

from google.protobuf.message import DecodeError

from heedful.oip import open_inference_pb2 as oip
from model.errors import HeedfulError, InvalidInputError
from service.errors import DrainingError
from service.network.streams import StreamContext
from service.servicer import Call

# Clients of Triton that wait for several answers to a request look for this on the last.
FINAL = "triton_final_response"
# Answers one request as a call of its own would be, or gives the error it ended with.
Answer = Callable[[oip.ModelInferRequest, Call], Awaitable[oip.ModelInferResponse | HeedfulError]]


async def serve_stream(
    context: StreamContext,
    answer: Answer,
    *,
    call_until: Callable[[float], Call],
    draining: asyncio.Event,
) -> None:
    """Returns when the caller has sent its last request and all are answered.

    The next request is read when the last answer is on the wire, so one caller holds no more than
    one request and one answer here.

    Raises:
        DrainingError: the server is stopping, and what was read is answered.
        InvalidInputError: bytes that are no request; those before them are answered.
    """
    remaining = context.time_remaining()
    deadline = math.inf if remaining is None else time.monotonic() + remaining
    stopping = asyncio.create_task(draining.wait())
    try:
        while (data := await _read(context, stopping)) is not None:
            request, call = _parsed(data), call_until(deadline)
            try:
                message = _message(request, await answer(request, call))
                await context.write(message.SerializeToString())
            finally:
                call.let_go()
    finally:
        stopping.cancel()


async def _read(context: StreamContext, stopping: asyncio.Task[Any]) -> bytes | None:
    """The next request's bytes, None after the last; ends with the server."""
    reading = asyncio.ensure_future(context.read())
    try:
        await asyncio.wait({reading, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            raise DrainingError
        data = reading.result()
        return data if isinstance(data, bytes) else None
    finally:
        reading.cancel()


def _parsed(data: bytes) -> oip.ModelInferRequest:
    try:
        return oip.ModelInferRequest.FromString(data)
    except DecodeError:
        raise InvalidInputError(
            "a message of the stream is not an inference.ModelInferRequest: its bytes are "
            "malformed, or a name is not UTF-8"
        ) from None


def _message(
    request: oip.ModelInferRequest, outcome: oip.ModelInferResponse | HeedfulError
) -> oip.ModelStreamInferResponse:
    message = oip.ModelStreamInferResponse()
    if isinstance(outcome, HeedfulError):
        message.error_message = str(outcome)
        message.infer_response.id = request.id
    else:
        message.infer_response.CopyFrom(outcome)
        message.infer_response.parameters[FINAL].bool_param = True
    return message
