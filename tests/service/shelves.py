"""A folder of models to serve, and servers on it whose engines the test holds in its hands."""

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from heedful.v1 import classifier_pb2 as pb
from heedful.v1.admin_pb2_grpc import AdminStub
from heedful.v1.classifier_pb2_grpc import ClassifierStub
from model.bundle import MANIFEST, Bundle
from service.config import ServerConfig
from service.server import Server
from tests.service.calls import TIMEOUT, texts
from tests.service.engines import GoldenEngine


class Shelf:
    """A folder NAME/VERSION with copies of one bundle, and the engines made for them."""

    def __init__(self, folder: Path, bundle: Bundle) -> None:
        self.folder, self._bundle = folder, bundle
        self.engines: dict[str, GoldenEngine] = {}
        folder.mkdir()

    def put(self, name: str, version: str) -> Path:
        """Adds a version as an operator should: moved in when it is whole."""
        draft = self.folder / f".{name}-{version}"
        shutil.copytree(self._bundle.path, draft)
        place = self.folder / name / version
        place.parent.mkdir(exist_ok=True)
        return draft.rename(place)

    def load(self, bundle: Bundle, config: ServerConfig) -> GoldenEngine:
        """Makes an engine; the last one made for each version can be got at."""
        engine = GoldenEngine(self._bundle)  # which knows nothing of spoiled ones
        self.engines[bundle.manifest.version] = engine
        return engine


def spoil(path: Path) -> None:
    """Changes the known example, so that no engine can agree with it."""
    manifest = json.loads((path / MANIFEST).read_text())
    manifest["golden"]["logits"] = [float("1e9")] * len(manifest["labels"])
    (path / MANIFEST).write_text(json.dumps(manifest))


class Wire:
    """Stubs of one server."""

    def __init__(self, server: Server | None, channel: grpc.aio.Channel) -> None:
        self.server, self.channel = server, channel
        self.classifier: Any = ClassifierStub(channel)
        self.admin: Any = AdminStub(channel)

    async def versions(self, *asked: str) -> list[str]:
        """The versions that answer, for each version asked for."""
        requests = [texts("a", version=version) for version in asked]
        calls = [self.classifier.Classify(request, timeout=TIMEOUT) for request in requests]
        return [(await call).version for call in calls]

    async def rows(self) -> dict[tuple[str, str], pb.ModelVersion]:
        """ListModels, by model and version."""
        answer = await self.classifier.ListModels(pb.ListModelsRequest(), timeout=TIMEOUT)
        return {(row.model, row.version): row for row in answer.models}


@asynccontextmanager
async def on_the_wire(
    shelf: Shelf, bundle: Bundle | None = None, **settings
) -> AsyncIterator[Wire]:
    """A server on a shelf, which looks into it only when the test says so, and stubs of it."""
    config = ServerConfig(
        **{
            **{"port": 0, "metrics_port": 0, "grace": 5.0, "instances": 1, "threads": 1},
            **{"models": str(shelf.folder), "poll_seconds": 0, "allow_admin": True},
            **settings,
        }
    )
    server = Server(config, bundle, shelf.load)
    await server.start()
    try:
        async with grpc.aio.insecure_channel(server.address) as channel:
            yield Wire(server, channel)
    finally:
        for engine in shelf.engines.values():
            engine.gate.set()
        assert await server.stop()
