"""The protocol's methods, each a request and a call in and a message out."""

import time
from functools import partial
from importlib import metadata

import grpc
from google.protobuf.message import Message

from heedful.oip import open_inference_pb2 as oip
from model.errors import HeedfulError
from service.config import ServerConfig
from service.errors import AdminOffError
from service.network.border import SERVICE as CLASSIFIER
from service.network.border import Border, Method
from service.network.health import Health
from service.network.reading import StreamContext
from service.oip.descriptions import model_config, model_metadata
from service.oip.parameters import refuse_unknown
from service.oip.replies import fill_response
from service.oip.requests import read_request, timeout_seconds
from service.oip.statistics import model_statistics
from service.oip.stream import InferStream
from service.servicer import Call
from service.versions.listing import State
from service.versions.repository import Repository

SERVICE = oip.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name
# By the names that clients look for.
EXTENSIONS = ("classification", "model_configuration", "model_repository")
STATISTICS = "statistics"
STREAM = "ModelStreamInfer"
STATES = {
    State.LOADING: "LOADING",
    State.READY: "READY",
    State.DRAINING: "UNLOADING",
    State.FAILED: "UNAVAILABLE",
}


class OpenInference:
    """Answers the Open Inference Protocol for the models that are served."""

    def __init__(self, repository: Repository, health: Health, config: ServerConfig) -> None:
        self._repository, self._models, self._health = repository, repository.models, health
        self._max_inputs, self._may_change = config.max_inputs, config.allow_admin
        self._max_stream_requests = config.max_stream_requests

    def handlers(self, border: Border) -> grpc.GenericRpcHandler:
        """What to add to a grpc.aio server; calls are counted and bounded as all others are."""
        # Work is refused while the server stops, questions about it are not.
        work: dict[str, tuple[type[Message], Method]] = {
            "ModelInfer": (oip.ModelInferRequest, self.model_infer),
            "RepositoryModelLoad": (oip.RepositoryModelLoadRequest, self.load_model),
            "RepositoryModelUnload": (oip.RepositoryModelUnloadRequest, self.unload_model),
        }
        questions: dict[str, tuple[type[Message], Method]] = {
            "ServerLive": (oip.ServerLiveRequest, self.server_live),
            "ServerReady": (oip.ServerReadyRequest, self.server_ready),
            "ServerMetadata": (oip.ServerMetadataRequest, self.server_metadata),
            "ModelReady": (oip.ModelReadyRequest, self.model_ready),
            "ModelMetadata": (oip.ModelMetadataRequest, self.model_metadata),
            "ModelConfig": (oip.ModelConfigRequest, self.model_config),
            "ModelStatistics": (oip.ModelStatisticsRequest, self.model_statistics),
            "RepositoryIndex": (oip.RepositoryIndexRequest, self.repository_index),
        }
        methods = {name: border.unary(name, *method) for name, method in work.items()}
        for name, method in questions.items():
            methods[name] = border.unary(name, *method, always=True)
        methods[STREAM] = border.stream(STREAM, partial(self._serve_stream, border))
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def _serve_stream(self, border: Border, context: StreamContext) -> None:
        await InferStream(
            context,
            partial(border.outcome, STREAM, self.model_infer),
            call_until=border.call_until,
            draining=border.drain_event,
            max_requests=self._max_stream_requests,
        ).serve()

    async def server_live(self, _: oip.ServerLiveRequest, __: Call) -> oip.ServerLiveResponse:
        return oip.ServerLiveResponse(live=True)

    async def server_ready(self, _: oip.ServerReadyRequest, __: Call) -> oip.ServerReadyResponse:
        return oip.ServerReadyResponse(ready=self._health.is_serving())

    async def model_ready(self, request: oip.ModelReadyRequest, _: Call) -> oip.ModelReadyResponse:
        """Whether a model answers; a question with an answer, so nothing here is an error."""
        try:
            served = self._models.get(request.name, request.version)
        except HeedfulError:
            return oip.ModelReadyResponse(ready=False)
        service = f"{CLASSIFIER}/{served.name}/{served.version}"
        return oip.ModelReadyResponse(ready=self._health.is_serving(service))

    async def server_metadata(
        self, _: oip.ServerMetadataRequest, __: Call
    ) -> oip.ServerMetadataResponse:
        extensions = [*EXTENSIONS]
        # perf_analyzer takes versions for numbers once it is told of statistics, and gives up on
        # others. Versions of a models folder are numbers; those of a bundle by itself are not.
        if all(served.version.isdigit() for served in self._models):
            extensions.append(STATISTICS)
        return oip.ServerMetadataResponse(
            name="heedful", version=metadata.version("heedful"), extensions=extensions
        )

    async def model_metadata(
        self, request: oip.ModelMetadataRequest, _: Call
    ) -> oip.ModelMetadataResponse:
        served = self._models.get(request.name, request.version)
        others = [
            version for version in self._models.versions(served.name) if version != served.version
        ]
        return model_metadata(served, others, self._max_inputs)

    async def model_config(
        self, request: oip.ModelConfigRequest, _: Call
    ) -> oip.ModelConfigResponse:
        served = self._models.get(request.name, request.version)
        return oip.ModelConfigResponse(config=model_config(served, self._max_inputs))

    async def model_statistics(
        self, request: oip.ModelStatisticsRequest, _: Call
    ) -> oip.ModelStatisticsResponse:
        if request.name:
            self._models.get(request.name, request.version)
        return oip.ModelStatisticsResponse(
            model_stats=[
                model_statistics(served)
                for served in self._models
                if request.name in ("", served.name) and request.version in ("", served.version)
            ]
        )

    async def repository_index(
        self, request: oip.RepositoryIndexRequest, _: Call
    ) -> oip.RepositoryIndexResponse:
        response = oip.RepositoryIndexResponse()
        for listed in self._repository.listing():
            if listed.state is State.READY or not request.ready:
                response.models.add(
                    name=listed.name,
                    version=listed.version,
                    state=STATES[listed.state],
                    reason=listed.reason,
                )
        return response

    async def load_model(
        self, request: oip.RepositoryModelLoadRequest, _: Call
    ) -> oip.RepositoryModelLoadResponse:
        """Loads a model's newest version beside those that answer."""
        self._check_change(request, known=())
        await self._repository.load(request.model_name)
        return oip.RepositoryModelLoadResponse()

    async def unload_model(
        self, request: oip.RepositoryModelUnloadRequest, _: Call
    ) -> oip.RepositoryModelUnloadResponse:
        """Takes all versions of a model out of service."""
        self._check_change(request, known=("unload_dependents",))
        await self._repository.unload(request.model_name)
        return oip.RepositoryModelUnloadResponse()

    def _check_change(
        self,
        request: oip.RepositoryModelLoadRequest | oip.RepositoryModelUnloadRequest,
        known: tuple[str, ...],
    ) -> None:
        if not self._may_change:
            raise AdminOffError
        refuse_unknown(request.parameters, known, "the request")

    async def model_infer(
        self, request: oip.ModelInferRequest, call: Call
    ) -> oip.ModelInferResponse:
        """Classifies a request's texts; all are answered or none is."""
        allowed = timeout_seconds(request)
        if allowed is not None:
            call.shorten(allowed)
        with self._models.get(request.model_name, request.model_version) as served:
            servicer = served.servicer
            asked = read_request(request, servicer.reader)
            computed = await servicer.compute(asked.question, call)
            response = oip.ModelInferResponse(
                model_name=served.name, model_version=served.version, id=request.id
            )
            start = time.perf_counter()
            fill_response(response, asked, computed, servicer.scorer)
            servicer.statistics.output_seconds += time.perf_counter() - start
            return response
