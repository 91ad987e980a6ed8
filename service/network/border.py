"""Between gRPC and the servicer: bytes in, bytes or a status out, counted and timed.

Requests are parsed and answers serialized here, so that a malformed message is the caller's error
and the time is known.
"""

import asyncio
import logging
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, Protocol, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from heedful.v1 import classifier_pb2 as pb
from model.errors import HeedfulError, InvalidInputError
from service.errors import (
    DeadlinePassedError,
    DrainingError,
    InternalFaultError,
)
from service.metrics import Metrics
from service.network.status import Status, status_of
from service.network.streams import Stream
from service.request.reserve import Reserve
from service.servicer import Call, ClassifierServicer
from service.versions.models import Models

log = logging.getLogger(__name__)

STREAM = "ClassifyStream"
SERVICE = pb.DESCRIPTOR.services_by_name["Classifier"].full_name
Q = TypeVar("Q")
A = TypeVar("A")
Method = Callable[[Any, Call], Awaitable[Message]]
ModelMethod = Callable[[ClassifierServicer, Any, Call], Awaitable[Message]]


class Context(Protocol):
    """What we need of grpc.aio.ServicerContext."""

    def time_remaining(self) -> float | None: ...

    def add_done_callback(self, callback: Callable[[Any], None]) -> None: ...

    async def abort(
        self, code: grpc.StatusCode, details: str, trailing_metadata: tuple[tuple[str, bytes], ...]
    ) -> NoReturn: ...


class Border:
    """The methods of heedful.v1.Classifier as gRPC sees them.

    Attributes:
        models: who answers; none while the first is loading.
        drain_event: set when new work is refused.
    """

    def __init__(
        self,
        models: Models,
        *,
        metrics: Metrics,
        default_timeout: float,
        max_stream_requests: int = 64,
        reserve: Reserve | None = None,
    ) -> None:
        self.models = models
        self.drain_event = asyncio.Event()
        self._max_stream_requests, self._reserve = max_stream_requests, reserve
        self._metrics, self._default_timeout = metrics, default_timeout
        self._num_calls = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def draining(self) -> bool:
        """Whether new work is refused."""
        return self.drain_event.is_set()

    def drain(self) -> None:
        """Refuses new work from now on, and ends streams when what they sent is answered."""
        self.drain_event.set()

    async def idle(self) -> None:
        """Waits until no call is being answered."""
        await self._idle.wait()

    def handlers(self) -> grpc.GenericRpcHandler:
        """What to add to a grpc.aio server."""
        methods = {
            "Classify": self._of_model(
                "Classify", pb.ClassifyRequest, lambda servicer, *given: servicer.classify(*given)
            ),
            "Tokenize": self._of_model(
                "Tokenize", pb.TokenizeRequest, lambda servicer, *given: servicer.tokenize(*given)
            ),
            "GetModel": self._of_model(
                "GetModel",
                pb.GetModelRequest,
                lambda servicer, *given: servicer.get_model(*given),
                always=True,
            ),
            STREAM: self.stream(STREAM, self._serve_classify),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    def _of_model(
        self, name: str, request_type: type[Message], method: ModelMethod, *, always: bool = False
    ) -> "grpc.RpcMethodHandler[bytes, bytes]":
        """A method of the model that its request names."""

        async def answer(request: Any, call: Call) -> Message:
            # The call keeps this version, whatever is loaded meanwhile.
            with self.models.get(request.model, request.version) as served:
                return await method(served.servicer, request, call)

        return self.unary(name, request_type, answer, always=always)

    def unary(
        self, name: str, request_type: type[Message], method: Method, *, always: bool = False
    ) -> "grpc.RpcMethodHandler[bytes, bytes]":
        """A method as gRPC sees it, under a name for metrics; always: even while stopping."""
        duration = self._metrics.request.labels(name)
        requests = self._metrics.requests

        async def handle(data: bytes, context: Context) -> bytes:
            remaining = context.time_remaining()
            timeout = self._default_timeout if remaining is None else remaining
            call = Call(deadline=time.monotonic() + timeout, reserve=self._reserve)
            code = grpc.StatusCode.UNKNOWN
            self._num_calls += 1
            self._idle.clear()
            try:
                answer = await self._answer(request_type, method, data, call, always)
                code = grpc.StatusCode.OK
                return answer
            except Exception as error:
                status = status_of(_named(error, name))
                code = status.code
                await self._refuse(status, context)
            except asyncio.CancelledError:
                if _cancelled_from_outside():
                    # The caller has left, or its deadline passed: there is nobody to tell.
                    late = call.deadline <= time.monotonic()
                    code = grpc.StatusCode.DEADLINE_EXCEEDED if late else grpc.StatusCode.CANCELLED
                    raise
                status = status_of(DrainingError())
                code = status.code
                await self._refuse(status, context)
            finally:
                if call.reserved and code is grpc.StatusCode.OK:
                    context.add_done_callback(lambda _: call.let_go())  # when it is sent
                else:
                    call.let_go()
                requests.labels(name, code.name).inc()
                duration.observe(time.perf_counter() - call.started)
                self._num_calls -= 1
                if not self._num_calls:
                    self._idle.set()

        # Without serializers gRPC hands bytes through.
        return grpc.unary_unary_rpc_method_handler(handle)

    async def _answer(
        self, request_type: type[Message], method: Method, data: bytes, call: Call, always: bool
    ) -> bytes:
        if self.draining and not always:
            raise DrainingError
        if call.deadline <= time.monotonic():
            raise DeadlinePassedError("arriving")
        try:
            request = request_type.FromString(data)
        except DecodeError:
            raise InvalidInputError(
                f"the message is not a {request_type.DESCRIPTOR.full_name}: its bytes are "
                "malformed, or a text is not UTF-8"
            ) from None
        response = await method(request, call)
        start = call.answering or time.perf_counter()
        answer = response.SerializeToString()
        self._metrics.serialize.observe(time.perf_counter() - start)
        return answer

    def call_until(self, deadline: float) -> Call:
        """The call of one request of a stream that ends at a deadline, or never if it is inf."""
        earliest = min(deadline, time.monotonic() + self._default_timeout)
        return Call(deadline=earliest, reserve=self._reserve)

    def stream(
        self, name: str, serve: Callable[[Any], Awaitable[None]]
    ) -> "grpc.RpcMethodHandler[bytes, bytes]":
        """A stream as gRPC sees it. Its requests are counted, one by one, and not the call."""

        async def handle(_: object, context: Any) -> None:
            self._num_calls += 1
            self._idle.clear()
            try:
                if self.draining:
                    raise DrainingError
                await serve(context)
            except Exception as error:
                await self._refuse(status_of(_named(error, name)), context)
            finally:
                self._num_calls -= 1
                if not self._num_calls:
                    self._idle.set()

        return grpc.stream_stream_rpc_method_handler(handle)

    async def _serve_classify(self, context: Any) -> None:
        await Stream(
            context,
            self._answer_in_stream,
            draining=self.drain_event,
            max_requests=self._max_stream_requests,
            default_timeout=self._default_timeout,
            reserve=self._reserve,
        ).serve()

    async def _answer_in_stream(
        self, request: pb.ClassifyRequest, call: Call
    ) -> pb.ClassifyResponse | HeedfulError:
        return await self.outcome(STREAM, self._classify, request, call)

    async def _classify(self, request: pb.ClassifyRequest, call: Call) -> pb.ClassifyResponse:
        with self.models.get(request.model, request.version) as served:
            return await served.servicer.classify(request, call)

    async def outcome(
        self, name: str, method: Callable[[Q, Call], Awaitable[A]], request: Q, call: Call
    ) -> A | HeedfulError:
        """What became of one request of a stream, counted as a call of its own would be."""
        code = grpc.StatusCode.CANCELLED
        try:
            response = await method(request, call)
            code = grpc.StatusCode.OK
            return response
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, Exception):
                refusal = _named(error, name)
            elif _cancelled_from_outside():
                raise
            else:
                refusal = DrainingError()
            status = status_of(refusal)
            code = status.code
            self._metrics.refusals.labels(status.reason).inc()
            return refusal
        finally:
            self._metrics.requests.labels(name, code.name).inc()
            self._metrics.request.labels(name).observe(time.perf_counter() - call.started)

    async def _refuse(self, status: Status, context: Context) -> NoReturn:
        self._metrics.refusals.labels(status.reason).inc()
        try:
            await context.abort(status.code, status.message, status.metadata)
        except grpc.aio.InternalError:
            # The caller left in this moment: nobody to tell, and nothing for the log.
            raise asyncio.CancelledError from None


def _named(error: Exception, method: str) -> HeedfulError:
    """Our own errors as they are; any other is a fault, whose cause goes to the log alone."""
    if isinstance(error, HeedfulError):
        return error
    # Frames and type, without the message: it could quote a user's text.
    frames = "".join(traceback.format_tb(error.__traceback__))
    log.error("%s failed with %s\n%s", method, type(error).__name__, frames)
    return InternalFaultError()


def _cancelled_from_outside() -> bool:
    """Whether this task is being cancelled, or merely waited for something that was."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
