"""The client for asyncio programs: the same calls, awaited."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from functools import partial
from types import TracebackType
from typing import Any, Self, Unpack

import grpc
import grpc.aio

from heedful import answers, bulk, connection, requests
from heedful.connection import DEFAULT_TARGET, Connection
from heedful.errors import DeadlineExceededError, RequestError, UnavailableError
from heedful.identity import Tls
from heedful.requests import ClassifyOptions, Text, TokenizeOptions
from heedful.results import Classification, ModelInfo, ModelVersion, Tokenization
from heedful.statuses import request_error
from heedful.streaming import MAX_IN_FLIGHT, StreamAnswer, Window
from heedful.v1 import classifier_pb2 as pb
from heedful.v1.classifier_pb2_grpc import ClassifierStub


class AsyncClient:
    """A line to one server for one event loop; see Client for the calls and what they raise.

    async with AsyncClient("localhost:50051") as client:
        result = await client.classify("A film that warms the heart.")
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        timeout: float = 10.0,
        tls: bool | Tls = False,
        token: str | None = None,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        """Opens the line as Client does; within a running event loop."""
        self._connection = Connection.to(
            target, timeout, tls=tls, token=token, credentials=credentials
        )
        options, credentials = self._connection.options, self._connection.credentials
        self._channel = (
            grpc.aio.insecure_channel(target, options)
            if credentials is None
            else grpc.aio.secure_channel(target, credentials, options)
        )
        self._stub: Any = ClassifierStub(self._channel)  # type: ignore[no-untyped-call]

    async def classify(
        self, text: Text, *, timeout: float | None = None, **options: Unpack[ClassifyOptions]
    ) -> Classification:
        """The labels of one text, and what else the options ask for."""
        results = await self.classify_many([requests.one(text)], timeout=timeout, **options)
        return results[0]

    async def classify_many(
        self,
        texts: Iterable[Text],
        *,
        timeout: float | None = None,
        **options: Unpack[ClassifyOptions],
    ) -> list[Classification]:
        """The labels of several texts in one request, in their order; all are answered or none."""
        texts = requests.several(texts)
        if not texts:
            return []
        request = requests.classify_request(texts, options)
        response = await self._call(self._stub.Classify, request, timeout)
        return answers.classifications(response, texts)

    def classify_stream(
        self,
        texts: Iterable[Text] | AsyncIterable[Text],
        *,
        timeout: float | None = None,
        max_in_flight: int = MAX_IN_FLIGHT,
        **options: Unpack[ClassifyOptions],
    ) -> AsyncIterator[StreamAnswer]:
        """The labels of any number of texts, each as soon as it is there; see Client."""
        seconds = self._connection.seconds(timeout)
        window = Window(texts, options, seconds=seconds, max_in_flight=max_in_flight)
        stream = partial(self._stub.ClassifyStream, metadata=self._connection.metadata)
        return bulk.ask_async(stream, texts, window, self._connection.target)

    async def tokenize(
        self, text: Text, *, timeout: float | None = None, **options: Unpack[TokenizeOptions]
    ) -> Tokenization:
        """How the model splits one text, without running it."""
        request = requests.tokenize_request([requests.one(text)], options)
        response = await self._call(self._stub.Tokenize, request, timeout)
        return answers.tokenizations(response, 1)[0]

    async def model_info(
        self, model: str = "", version: str = "", *, timeout: float | None = None
    ) -> ModelInfo:
        """The served model, its limits and what its backend can do."""
        request = pb.GetModelRequest(model=model, version=version)
        return answers.model_info(await self._call(self._stub.GetModel, request, timeout))

    async def list_models(self, *, timeout: float | None = None) -> list[ModelVersion]:
        """Every version of every model on the server, and where it stands."""
        request = pb.ListModelsRequest()
        return answers.model_versions(await self._call(self._stub.ListModels, request, timeout))

    async def is_ready(self, *, timeout: float | None = None) -> bool:
        """Whether the server answers now that it serves; False also if nothing is there."""
        try:
            return await self._is_serving(timeout)
        except (UnavailableError, DeadlineExceededError):
            return False

    async def wait_until_ready(self, timeout: float | None = None) -> None:
        """Returns when the server says that it serves; a DeadlineExceededError if it does not."""
        loop = asyncio.get_running_loop()
        seconds = self._connection.seconds(timeout)
        deadline = loop.time() + seconds
        watch = self._channel.unary_stream(
            connection.HEALTH_WATCH, request_serializer=bytes, response_deserializer=bytes
        )
        metadata = self._connection.metadata
        while True:
            left = max(deadline - loop.time(), 0.0)
            statuses = watch(
                connection.WHOLE_SERVER, timeout=left, wait_for_ready=True, metadata=metadata
            )
            try:
                async for status in statuses:
                    if status == connection.SERVING:
                        statuses.cancel()
                        return
            except grpc.RpcError as error:
                failure = request_error(error, self._connection.target)
                if isinstance(failure, DeadlineExceededError):
                    raise await self._not_ready(seconds) from None
                if not isinstance(failure, UnavailableError):
                    raise failure from None
            await asyncio.sleep(min(connection.RETRY_SECONDS, left))

    async def close(self) -> None:
        """Ends the line; calls under way are cancelled."""
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _is_serving(self, timeout: float | None) -> bool:
        check = self._channel.unary_unary(
            connection.HEALTH_CHECK, request_serializer=bytes, response_deserializer=bytes
        )
        answer: bytes = await self._call(check, connection.WHOLE_SERVER, timeout)
        return answer == connection.SERVING

    async def _not_ready(self, seconds: float) -> DeadlineExceededError:
        """Asks once more, since a wait that ends does not say what was in its way."""
        why: RequestError | None = None
        try:
            await self._is_serving(connection.LAST_SECONDS)
        except RequestError as error:
            why = error
        return self._connection.not_ready(seconds, why)

    async def _call(self, method: Any, request: Any, timeout: float | None) -> Any:
        try:
            return await method(
                request,
                timeout=self._connection.seconds(timeout),
                metadata=self._connection.metadata,
            )
        except grpc.RpcError as error:
            raise request_error(error, self._connection.target) from None
