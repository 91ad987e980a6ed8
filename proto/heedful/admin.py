"""Changing what a server serves, where its operator allows it."""

from dataclasses import dataclass
from typing import Any

from heedful.client import Client
from heedful.v1 import admin_pb2 as pb
from heedful.v1.admin_pb2_grpc import AdminStub

# Loading a large model and letting an old one drain take longer than a question.
CHANGE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class LoadedVersion:
    """A version that was loaded, and the model's default before and now; "" where there is none."""

    version: str
    previous_default_version: str
    default_version: str


class Admin:
    """Loads, unloads and chooses versions over a client's line.

        with Client("localhost:50051") as client:
            loaded = Admin(client).load_model("reviews")
            Admin(client).set_default_version("reviews", loaded.previous_default_version)

    Every call raises a RequestError where it changed nothing: FailedPreconditionError where the
    server was started without --allow-admin or the bundle does not load, NotFoundError where there
    is no such model or version.
    """

    def __init__(self, client: Client, *, timeout: float = CHANGE_SECONDS) -> None:
        """Takes an open client; timeout is in seconds and of each call."""
        self._client, self._timeout = client, timeout
        self._stub: Any = AdminStub(client._channel)  # type: ignore[no-untyped-call]

    def load_model(
        self, model: str, version: str = "", *, keep_default: bool = False
    ) -> LoadedVersion:
        """Loads a version, the highest unless one is named, and makes it the default."""
        request = pb.LoadModelRequest(model=model, version=version, keep_default=keep_default)
        answer = self._client._call(self._stub.LoadModel, request, self._timeout)
        return LoadedVersion(
            answer.version, answer.previous_default_version, answer.default_version
        )

    def unload_model(self, model: str, version: str = "") -> tuple[str, ...]:
        """Unloads a version, all unless one is named, and returns those that left."""
        request = pb.UnloadModelRequest(model=model, version=version)
        return tuple(self._client._call(self._stub.UnloadModel, request, self._timeout).versions)

    def set_default_version(self, model: str, version: str) -> str:
        """Moves the default to a version that is loaded, and returns the one it was."""
        request = pb.SetDefaultVersionRequest(model=model, version=version)
        answer = self._client._call(self._stub.SetDefaultVersion, request, self._timeout)
        previous: str = answer.previous_default_version
        return previous
