"""Reloads under load with the real engine: no request fails, and memory comes back."""

import asyncio
import gc
import os
import weakref
from pathlib import Path

import pytest

from heedful.v1 import admin_pb2 as admin
from model.bundle import Bundle
from service.versions.serving import load_engine
from tests.conftest import SENTENCES
from tests.service.calls import TIMEOUT, texts
from tests.service.shelves import Shelf, Wire, on_the_wire

STATM = Path("/proc/self/statm")
CALLERS = 8
# What the process may grow by over 150 reloads: an engine that stayed would cost over 1 MB each.
ALLOWED_GROWTH_BYTES = 30 << 20


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


async def ask(wire: Wire, stop: asyncio.Event, answered: list[int]) -> None:
    """Asks until told to stop; any refusal ends the test."""
    while not stop.is_set():
        for version in ("", "1"):
            answer = await wire.classifier.Classify(
                texts(*SENTENCES, version=version), timeout=TIMEOUT
            )
            assert len(answer.results) == len(SENTENCES)
            answered[0] += 1


async def reload_under_load(wire: Wire, times: int, each=lambda number: None) -> int:
    """Reloads both versions in turn while callers ask; how many answers they got."""
    stop, answered = asyncio.Event(), [0]
    async with asyncio.TaskGroup() as group:
        for _ in range(CALLERS):
            group.create_task(ask(wire, stop, answered))
        for number in range(times):
            version = str(1 + number % 2)
            request = admin.LoadModelRequest(model="reviews", version=version)
            before = answered[0]
            await wire.admin.LoadModel(request, timeout=TIMEOUT)
            while answered[0] == before:  # somebody has asked in between
                await asyncio.sleep(0.001)
            each(number)
        stop.set()
    await wire.server.repository.drained()
    return answered[0]


async def test_reloads_under_load_fail_no_request_and_leave_no_engine_behind(shelf) -> None:
    async with on_the_wire(shelf) as wire:
        assert await reload_under_load(wire, 5) >= 5
        await shelf.left_with(2)
        assert len(shelf.made) == 7


def resident_bytes() -> int:
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.soak
@pytest.mark.skipif(not STATM.exists(), reason="memory is read from Linux's /proc")
async def test_two_hundred_reloads_under_load_keep_memory_flat(shelf) -> None:
    seen: list[int] = []
    async with on_the_wire(shelf) as wire:
        await reload_under_load(wire, 200, lambda _: seen.append(resident_bytes()))
        await shelf.left_with(2)
    growth = max(seen[-20:]) - max(seen[30:50])
    assert growth < ALLOWED_GROWTH_BYTES, [rss >> 20 for rss in seen[::10]]
