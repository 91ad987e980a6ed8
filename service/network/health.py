"""The standard health protocol, grpc.health.v1: Check and Watch.

Our own in place of grpc_health's servicer: there, the first watcher to leave takes the others'
notifications with it, and open watches hold up a stopping server until its grace is over.
"""

from __future__ import annotations  # grpc's classes take type arguments in its stubs only

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING

import grpc
from grpc_health.v1 import health_pb2 as pb
from grpc_health.v1 import health_pb2_grpc

SERVING = pb.HealthCheckResponse.SERVING
NOT_SERVING = pb.HealthCheckResponse.NOT_SERVING
SERVICE_UNKNOWN = pb.HealthCheckResponse.SERVICE_UNKNOWN

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[pb.HealthCheckRequest, pb.HealthCheckResponse]


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """One status for the server, "", and the services it names, and one for each of its models.

    A model is a service named "heedful.v1.Classifier/NAME", one version of it
    "heedful.v1.Classifier/NAME/VERSION".
    """

    def __init__(self, services: Sequence[str]) -> None:
        self._services = {"", *services}
        self._models: dict[str, bool] = {}
        self._serving = self._ended = False
        self._changed = asyncio.Event()

    def set_serving(self, serving: bool, models: Mapping[str, bool] | None = None) -> None:
        """Changes the statuses and tells whoever watches.

        Args:
            models: service names of models, and whether they answer; None leaves them as they are.
        """
        self._serving = serving
        if models is not None:
            self._models = dict(models)
        self._notify()

    def is_serving(self, service: str = "") -> bool:
        """Whether the server, or a service it names, is SERVING."""
        return self._status(service) == int(SERVING)

    def end_watches(self) -> None:
        """Ends every watch after its last status, so that none holds up a stop."""
        self._ended = True
        self._notify()

    async def Check(  # noqa: N802 - the protocol's name
        self, request: pb.HealthCheckRequest, context: Context
    ) -> pb.HealthCheckResponse:
        status = self._status(request.service)
        if status == SERVICE_UNKNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such service here")
        return pb.HealthCheckResponse(status=status)

    async def Watch(  # noqa: N802 - the protocol's name
        self, request: pb.HealthCheckRequest, context: Context
    ) -> AsyncIterator[pb.HealthCheckResponse]:
        told = None
        while True:
            # Taken before the status is read: a change in between is not missed.
            changed = self._changed
            status = self._status(request.service)
            if status != told:
                told = status
                yield pb.HealthCheckResponse(status=status)
            elif self._ended:
                return
            else:
                await changed.wait()

    def _status(self, service: str) -> int:
        if service in self._services:
            return int(SERVING if self._serving else NOT_SERVING)
        if service in self._models:
            return int(SERVING if self._models[service] else NOT_SERVING)
        return int(SERVICE_UNKNOWN)

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
