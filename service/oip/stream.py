"""One ModelStreamInfer call: requests are computed side by side and answered in their order.

The order is part of the protocol where models are not decoupled, which ours are not. tritonclient
tells an error without the id of its request, so that callers have nothing but the order.
"""

import asyncio
from collections.abc import Awaitable, Callable

from google.protobuf.message import DecodeError

from heedful.oip import open_inference_pb2 as oip
from model.errors import HeedfulError, InvalidInputError
from service.network.reading import Requests, StreamContext
from service.oip.requests import ATTENTIONS
from service.servicer import Call

# Clients of Triton that wait for several answers to a request look for this on the last.
FINAL = "triton_final_response"
# Answers one request as a call of its own would be, or gives the error it ended with.
Answer = Callable[[oip.ModelInferRequest, Call], Awaitable[oip.ModelInferResponse | HeedfulError]]


class InferStream:
    """Reads and computes ahead, but no more than max_requests whose answers are not written."""

    def __init__(
        self,
        context: StreamContext,
        answer: Answer,
        *,
        call_until: Callable[[float], Call],
        draining: asyncio.Event,
        max_requests: int,
    ) -> None:
        self._context, self._answer, self._call_until = context, answer, call_until
        self._requests = Requests(
            context,
            parse=_parsed,
            respond=self._respond,
            draining=draining,
            max_requests=max_requests,
        )
        # Set when the last request that was read has its answer on the wire, or never will.
        self._written = asyncio.Event()
        self._written.set()

    async def serve(self) -> None:
        """Returns, and raises, as Requests.serve does."""
        await self._requests.serve()

    async def _respond(self, request: oip.ModelInferRequest) -> None:
        before, written = self._written, asyncio.Event()
        self._written = written  # before the first await, since tasks begin in their order
        call = self._call_until(self._requests.deadline)
        attends = any(output.name == ATTENTIONS for output in request.outputs)
        try:
            async with self._requests.room(attention=attends):
                message = _message(request, await self._answer(request, call))
                await before.wait()
                await self._context.write(message.SerializeToString())
        finally:
            written.set()
            call.let_go()


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
