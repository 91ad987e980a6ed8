"""Calls about models rather than texts: ListModels, and heedful.v1.Admin."""

import grpc

from heedful.v1 import admin_pb2, classifier_pb2
from service.errors import AdminOffError
from service.network.border import SERVICE, Border
from service.servicer import Call
from service.versions.listing import Listed, State
from service.versions.repository import Repository

ADMIN_SERVICE = admin_pb2.DESCRIPTOR.services_by_name["Admin"].full_name
STATES = {
    State.LOADING: classifier_pb2.MODEL_STATE_LOADING,
    State.READY: classifier_pb2.MODEL_STATE_READY,
    State.DRAINING: classifier_pb2.MODEL_STATE_DRAINING,
    State.FAILED: classifier_pb2.MODEL_STATE_FAILED,
}


class Administration:
    """Answers what is served and, where that is allowed, changes it."""

    def __init__(self, repository: Repository, *, allowed: bool) -> None:
        self._repository, self._allowed = repository, allowed

    def handlers(self, border: Border) -> tuple[grpc.GenericRpcHandler, ...]:
        """What to add to a grpc.aio server."""
        listing = border.unary(
            "ListModels", classifier_pb2.ListModelsRequest, self.list_models, always=True
        )
        changes = {
            "LoadModel": border.unary("LoadModel", admin_pb2.LoadModelRequest, self.load_model),
            "UnloadModel": border.unary(
                "UnloadModel", admin_pb2.UnloadModelRequest, self.unload_model
            ),
            "SetDefaultVersion": border.unary(
                "SetDefaultVersion", admin_pb2.SetDefaultVersionRequest, self.set_default_version
            ),
        }
        return (
            grpc.method_handlers_generic_handler(SERVICE, {"ListModels": listing}),
            grpc.method_handlers_generic_handler(ADMIN_SERVICE, changes),
        )

    async def list_models(
        self, request: classifier_pb2.ListModelsRequest, call: Call
    ) -> classifier_pb2.ListModelsResponse:
        """Every version of every model, and where it stands."""
        rows = [_row(listed) for listed in self._repository.listing()]
        return classifier_pb2.ListModelsResponse(models=rows)

    async def load_model(
        self, request: admin_pb2.LoadModelRequest, call: Call
    ) -> admin_pb2.LoadModelResponse:
        """Loads a version beside those that answer."""
        self._check_allowed()
        models, name = self._repository.models, request.model
        previous = models.default_version(name)
        served = await self._repository.load(
            name, request.version, keep_default=request.keep_default
        )
        return admin_pb2.LoadModelResponse(
            version=served.version,
            previous_default_version=previous,
            default_version=models.default_version(name),
        )

    async def unload_model(
        self, request: admin_pb2.UnloadModelRequest, call: Call
    ) -> admin_pb2.UnloadModelResponse:
        """Takes versions out of service."""
        self._check_allowed()
        versions = await self._repository.unload(request.model, request.version)
        default = self._repository.models.default_version(request.model)
        return admin_pb2.UnloadModelResponse(versions=versions, default_version=default)

    async def set_default_version(
        self, request: admin_pb2.SetDefaultVersionRequest, call: Call
    ) -> admin_pb2.SetDefaultVersionResponse:
        """Moves the default."""
        self._check_allowed()
        previous = self._repository.set_default(request.model, request.version)
        return admin_pb2.SetDefaultVersionResponse(previous_default_version=previous)

    def _check_allowed(self) -> None:
        if not self._allowed:
            raise AdminOffError


def _row(listed: Listed) -> classifier_pb2.ModelVersion:
    row = classifier_pb2.ModelVersion(
        model=listed.name,
        version=listed.version,
        state=STATES[listed.state],
        reason=listed.reason,
        is_default=listed.is_default,
    )
    if listed.served is not None:
        backend = listed.served.backend
        row.backend, row.device, row.precision = backend.name, backend.device, backend.precision
    return row
