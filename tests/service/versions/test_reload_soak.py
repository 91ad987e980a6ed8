"""Reloads under load with the real engine: no request fails, and memory comes back."""

import asyncio
import gc
import os
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest

from benchmarks.bundles import random_bundle
from heedful.v1 import admin_pb2 as admin
from model.bundle import Bundle
from service.versions.serving import load_engine
from tests.conftest import SENTENCES
from tests.service.calls import TIMEOUT, texts
from tests.service.processes import serving
from tests.service.shelves import Shelf, Wire, on_the_wire
from tests.service.test_memory import linux, memory_of

CALLERS = 8
# What the process may grow by over 150 reloads: an engine that stayed would cost over 1 MB each.
ALLOWED_GROWTH_BYTES = 30 << 20
# A model of 63 MB, of which an engine that stayed would keep over 10 MB in memory of its own.
LARGE, LARGE_RELOADS, LARGE_GROWTH_BYTES = "minilm", 60, 64 << 20


class RealShelf(Shelf):
    """Engines of ONNX Runtime, of which only weak references are kept."""

    def __init__(self, folder: Path, bundle: Bundle) -> None:
        super().__init__(folder, bundle)
        self.made: list[weakref.ref] = []

    def load(self, bundle, config):
        engine = load_engine(bundle, config)
        self.made.append(weakref.ref(engine))
        return engine

    async def left_with(self, num_engines: int) -> None:
        """Waits until no more engines are in memory; their threads let go when they end."""
        async with asyncio.timeout(TIMEOUT):
            while sum(engine() is not None for engine in self.made) > num_engines:
                gc.collect()
                await asyncio.sleep(0.01)


@pytest.fixture
def shelf(tmp_path, exported_bundle) -> RealShelf:
    shelf = RealShelf(tmp_path / "models", exported_bundle)
    for version in ("1", "2"):
        shelf.put("reviews", version)
    return shelf


async def ask(wire: Wire, version: str, stop: asyncio.Event, answered: list[int]) -> None:
    """Asks for the default and for a version until told to stop; any refusal ends the test."""
    while not stop.is_set():
        for asked in ("", version):
            answer = await wire.classifier.Classify(
                texts(*SENTENCES, version=asked), timeout=TIMEOUT
            )
            assert len(answer.results) == len(SENTENCES)
            answered[0] += 1


async def reload_under_load(
    wire: Wire,
    times: int,
    model: str = "reviews",
    versions: Sequence[str] = ("1", "2"),
    each=lambda: None,
) -> int:
    """Reloads versions in turn while callers ask; how many answers they got."""
    stop, answered = asyncio.Event(), [0]
    async with asyncio.TaskGroup() as group:
        for _ in range(CALLERS):
            group.create_task(ask(wire, versions[0], stop, answered))
        for number in range(times):
            version = versions[number % len(versions)]
            request = admin.LoadModelRequest(model=model, version=version)
            before = answered[0]
            await wire.admin.LoadModel(request, timeout=TIMEOUT)
            while answered[0] == before:  # somebody has asked in between
                await asyncio.sleep(0.001)
            each()
        stop.set()
    return answered[0]


async def test_reloads_under_load_fail_no_request_and_leave_no_engine_behind(shelf) -> None:
    async with on_the_wire(shelf) as wire:
        assert await reload_under_load(wire, 5) >= 5
        await shelf.left_with(2)
        assert len(shelf.made) == 7


@linux
@pytest.mark.soak
async def test_two_hundred_reloads_under_load_keep_memory_flat(shelf) -> None:
    seen: list[int] = []
    async with on_the_wire(shelf) as wire:
        await reload_under_load(wire, 200, each=lambda: seen.append(memory_of(os.getpid())[0]))
        await shelf.left_with(2)
    growth = max(seen[-20:]) - max(seen[30:50])
    assert growth < ALLOWED_GROWTH_BYTES, [resident >> 20 for resident in seen[::10]]


@linux
@pytest.mark.soak
async def test_reloads_of_a_large_model_under_load_keep_memory_flat() -> None:
    """In a process of its own, whose memory knows of nothing else."""
    seen: list[int] = []
    with ExitStack() as stack:
        bundle = stack.enter_context(random_bundle(LARGE, int8=True))
        process = stack.enter_context(serving(bundle.path, "--allow-admin"))
        async with grpc.aio.insecure_channel(process.address) as channel:
            await reload_under_load(
                Wire(None, channel),
                LARGE_RELOADS,
                bundle.manifest.name,
                [bundle.manifest.version],
                each=lambda: seen.append(memory_of(process.pid)[0]),
            )
    growth = max(seen[-20:]) - max(seen[10:30])
    assert growth < LARGE_GROWTH_BYTES, [resident >> 20 for resident in seen[::5]]
