"""The folder of models is followed: what appears is loaded, what is removed is unloaded."""

import asyncio
import shutil

import pytest

from heedful.v1 import admin_pb2 as admin
from heedful.v1 import classifier_pb2 as pb
from service.versions.folders import scan, version_order
from service.versions.watching import FolderWatch
from tests.service.calls import TIMEOUT
from tests.service.shelves import Shelf, on_the_wire, spoil

FAILED = pb.MODEL_STATE_FAILED


@pytest.fixture
def shelf(tmp_path, tiny_bundle) -> Shelf:
    shelf = Shelf(tmp_path / "models", tiny_bundle)
    shelf.put("reviews", "1")
    return shelf


async def watch_of(wire) -> FolderWatch:
    """A watch that looks when the test says so."""
    watch = FolderWatch(wire.server.repository, 60)
    await watch.remember()
    return watch


async def test_a_version_that_appears_takes_over_and_one_that_is_removed_leaves(shelf) -> None:
    async with on_the_wire(shelf) as wire:
        watch = await watch_of(wire)
        shelf.put("reviews", "2")
        shelf.put("mails", "1")
        await watch.follow()
        assert set(await wire.rows()) == {("reviews", "1"), ("reviews", "2"), ("mails", "1")}
        assert wire.server.models.default_version("reviews") == "2"
        shutil.rmtree(shelf.folder / "reviews" / "2")
        shutil.rmtree(shelf.folder / "mails")
        await watch.follow()
        assert await wire.versions("") == ["1"]


async def test_a_server_follows_its_folder_by_itself(shelf) -> None:
    async with asyncio.timeout(TIMEOUT), on_the_wire(shelf, poll_seconds=0.01) as wire:
        shelf.put("reviews", "2")
        while wire.server.models.default_version("reviews") != "2":
            await asyncio.sleep(0.01)


async def test_a_folder_that_is_still_being_copied_is_left_alone_and_tried_when_whole(
    shelf, tiny_bundle
) -> None:
    async with on_the_wire(shelf) as wire:
        watch = await watch_of(wire)
        place = shelf.folder / "reviews" / "2"
        shutil.copytree(tiny_bundle.path, place, ignore=shutil.ignore_patterns("bundle.json"))
        await watch.follow()
        assert set(await wire.rows()) == {("reviews", "1")}
        # The wrong order: bundle.json is there and a file is not.
        (place / "tokenizer.json").unlink()
        shutil.copy(tiny_bundle.path / "bundle.json", place)
        await watch.follow()
        row = (await wire.rows())["reviews", "2"]
        assert row.state == FAILED
        assert "tokenizer.json is missing" in row.reason
        assert await wire.versions("") == ["1"]
        shutil.copy(tiny_bundle.path / "tokenizer.json", place)
        await watch.follow()
        assert await wire.versions("") == ["2"]


async def test_a_broken_version_is_tried_once_and_forgotten_when_removed(shelf) -> None:
    async with on_the_wire(shelf) as wire:
        watch = await watch_of(wire)
        place = shelf.put("reviews", "2")
        spoil(place)
        for _ in range(3):
            await watch.follow()
        loads = wire.server.metrics.registry.get_sample_value
        failed = {"model": "reviews", "outcome": "failed"}
        assert loads("heedful_model_loads_total", failed) == 1
        assert (await wire.rows())["reviews", "2"].state == FAILED
        shutil.rmtree(place)
        await watch.follow()
        assert set(await wire.rows()) == {("reviews", "1")}


async def test_what_was_unloaded_by_call_does_not_come_back_by_itself(shelf) -> None:
    shelf.put("reviews", "2")
    async with on_the_wire(shelf) as wire:
        watch = await watch_of(wire)
        await wire.admin.UnloadModel(admin.UnloadModelRequest(model="reviews", version="2"))
        await watch.follow()
        assert set(await wire.rows()) == {("reviews", "1")}


async def test_an_older_version_that_appears_does_not_take_over(shelf) -> None:
    shelf.put("reviews", "3")
    async with on_the_wire(shelf, keep_versions=3) as wire:
        watch = await watch_of(wire)
        shelf.put("reviews", "2")
        await watch.follow()
        assert await wire.versions("", "2") == ["3", "2"]


async def test_a_folder_that_cannot_be_read_unloads_nothing(shelf, caplog) -> None:
    async with on_the_wire(shelf) as wire:
        watch = await watch_of(wire)
        away = shelf.folder.rename(shelf.folder.with_name("away"))
        for _ in range(2):
            await watch.follow()
        assert await wire.versions("") == ["1"]
        assert caplog.text.count("cannot be read") == 1
        away.rename(shelf.folder)
        await watch.follow()
        assert await wire.versions("") == ["1"]


def test_versions_are_ordered_as_people_count(shelf) -> None:
    mixed = ["2", "10", "a10", "1.10", "a", "1", "1.9", "a2"]
    ordered = ["a", "a2", "a10", "1", "1.9", "1.10", "2", "10"]
    assert sorted(mixed, key=version_order) == ordered


def test_hidden_and_odd_folders_are_no_versions(shelf) -> None:
    for name in (".draft", "with space", "..."):
        shelf.put("reviews", "5").rename(shelf.folder / "reviews" / name)
    shelf.put("odd name", "1")
    assert [source.version for source in scan(shelf.folder)] == ["1"]
