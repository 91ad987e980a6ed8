"""The client for programs that wait for their answers."""

import time
from collections.abc import Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import Any, Self, Unpack

import grpc

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


class Client:
    """A line to one server; open it once, use it from any thread, close it or use it in `with`.

        with Client("localhost:50051") as client:
            result = client.classify("A film that warms the heart.", attention=True)
            print(result.label, result.probability, result.attention.weights.shape)

    A text is a string, a tuple of two strings that are read together, or a sequence of token ids.
    Every call ends: with an answer, or with a RequestError that says why there is none.
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
        """Opens the line; nothing is sent yet.

        Args:
            target: host:port of the server.
            timeout: seconds that a call may take unless it says otherwise.
            tls: True for TLS with a certificate of a known authority, or a Tls that names files;
                False speaks plain text.
            token: a bearer token to send with every call. Over plain text, whoever is on the way
                can read it.
            credentials: gRPC's own, instead of tls.

        Raises:
            ValueError: a file cannot be read, or a setting is nonsense.
        """
        self._connection = Connection.to(
            target, timeout, tls=tls, token=token, credentials=credentials
        )
        options, credentials = self._connection.options, self._connection.credentials
        self._channel = (
            grpc.insecure_channel(target, options)
            if credentials is None
            else grpc.secure_channel(target, credentials, options)
        )
        self._stub: Any = ClassifierStub(self._channel)  # type: ignore[no-untyped-call]

    def classify(
        self, text: Text, *, timeout: float | None = None, **options: Unpack[ClassifyOptions]
    ) -> Classification:
        """The labels of one text, and what else the options ask for.

        Args:
            text: a string, a tuple of two, or token ids.
            timeout: seconds to wait for the answer; None for the client's.
            options: attention, top_k, truncation, target_label, tokens, model, version: see
                ClassifyOptions.

        Raises:
            RequestError: there is no answer; the class says why.
        """
        return self.classify_many([requests.one(text)], timeout=timeout, **options)[0]

    def classify_many(
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
        return answers.classifications(self._call(self._stub.Classify, request, timeout), texts)

    def classify_stream(
        self,
        texts: Iterable[Text],
        *,
        timeout: float | None = None,
        max_in_flight: int = MAX_IN_FLIGHT,
        **options: Unpack[ClassifyOptions],
    ) -> Iterator[StreamAnswer]:
        """The labels of any number of texts over one call, each as soon as it is there.

            for index, answer in client.classify_stream(texts):
                ...  # answer is a Classification, or the RequestError of that text alone

        Texts are taken as there is room for them, so an endless or huge iterable is fine. A full
        server is asked again until the text's time is up.

        Args:
            texts: each as in classify.
            timeout: seconds for one text, not for the stream; None for the client's.
            max_in_flight: texts sent and not yet answered; answers are looked for when there are
                so many, or no more texts.
            options: as in classify, for all texts.

        Raises:
            RequestError: the stream ended early; texts without an answer may be sent again.
        """
        seconds = self._connection.seconds(timeout)
        window = Window(texts, options, seconds=seconds, max_in_flight=max_in_flight)
        stream = partial(self._stub.ClassifyStream, metadata=self._connection.metadata)
        return bulk.ask(stream, texts, window, self._connection.target)

    def tokenize(
        self, text: Text, *, timeout: float | None = None, **options: Unpack[TokenizeOptions]
    ) -> Tokenization:
        """How the model splits one text, without running it; raises as classify does."""
        request = requests.tokenize_request([requests.one(text)], options)
        return answers.tokenizations(self._call(self._stub.Tokenize, request, timeout), 1)[0]

    def model_info(
        self, model: str = "", version: str = "", *, timeout: float | None = None
    ) -> ModelInfo:
        """The served model, its limits and what its backend can do."""
        request = pb.GetModelRequest(model=model, version=version)
        return answers.model_info(self._call(self._stub.GetModel, request, timeout))

    def list_models(self, *, timeout: float | None = None) -> list[ModelVersion]:
        """Every version of every model on the server, and where it stands."""
        request = pb.ListModelsRequest()
        return answers.model_versions(self._call(self._stub.ListModels, request, timeout))

    def is_ready(self, *, timeout: float | None = None) -> bool:
        """Whether the server answers now that it serves; False also if nothing is there."""
        try:
            return self._is_serving(timeout)
        except (UnavailableError, DeadlineExceededError):
            return False

    def wait_until_ready(self, timeout: float | None = None) -> None:
        """Returns when the server says that it serves; it may be started later than this call.

        Raises:
            DeadlineExceededError: it did not within the timeout.
        """
        seconds = self._connection.seconds(timeout)
        deadline = time.monotonic() + seconds
        watch = self._channel.unary_stream(
            connection.HEALTH_WATCH, request_serializer=bytes, response_deserializer=bytes
        )
        metadata = self._connection.metadata
        while True:
            left = max(deadline - time.monotonic(), 0.0)
            statuses = watch(
                connection.WHOLE_SERVER, timeout=left, wait_for_ready=True, metadata=metadata
            )
            try:
                if any(status == connection.SERVING for status in statuses):
                    statuses.cancel()
                    return
            except grpc.RpcError as error:
                failure = request_error(error, self._connection.target)
                if isinstance(failure, DeadlineExceededError):
                    raise self._not_ready(seconds) from None
                if not isinstance(failure, UnavailableError):
                    raise failure from None
            time.sleep(min(connection.RETRY_SECONDS, left))

    def close(self) -> None:
        """Ends the line; calls under way are cancelled."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _is_serving(self, timeout: float | None) -> bool:
        check = self._channel.unary_unary(
            connection.HEALTH_CHECK, request_serializer=bytes, response_deserializer=bytes
        )
        answer: bytes = self._call(check, connection.WHOLE_SERVER, timeout)
        return answer == connection.SERVING

    def _not_ready(self, seconds: float) -> DeadlineExceededError:
        """Asks once more, since a wait that ends does not say what was in its way."""
        why: RequestError | None = None
        try:
            self._is_serving(connection.LAST_SECONDS)
        except RequestError as error:
            why = error
        return self._connection.not_ready(seconds, why)

    def _call(self, method: Any, request: Any, timeout: float | None) -> Any:
        try:
            return method(
                request,
                timeout=self._connection.seconds(timeout),
                metadata=self._connection.metadata,
            )
        except grpc.RpcError as error:
            raise request_error(error, self._connection.target) from None
