"""Versions are loaded beside each other, take over, and leave without a trace."""

import asyncio
import gc
import threading
import weakref

import grpc
import pytest

from heedful.v1 import admin_pb2 as admin
from heedful.v1 import classifier_pb2 as pb
from model.bundle import load_bundle
from model.errors import BundleError, SetupError
from service.config import ServerConfig
from service.errors import DrainingError
from service.server import Server
from tests.service.calls import TIMEOUT, refusal_of, texts
from tests.service.shelves import Shelf, on_the_wire, spoil

READY, FAILED = pb.MODEL_STATE_READY, pb.MODEL_STATE_FAILED
FREE = {"port": 0, "metrics_port": 0}


@pytest.fixture
def shelf(tmp_path, tiny_bundle) -> Shelf:
    shelf = Shelf(tmp_path / "models", tiny_bundle)
    shelf.put("reviews", "9")
    shelf.put("reviews", "10")
    return shelf


async def refused(call) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    refusal = refusal_of(error.value)
    return refusal.code, refusal.message


async def test_the_highest_version_answers_who_names_none(shelf) -> None:
    async with on_the_wire(shelf) as wire:
        assert await wire.versions("", "9", "10") == ["10", "9", "10"]
        rows = await wire.rows()
        assert {key: row.state for key, row in rows.items()} == {
            ("reviews", "9"): READY,
            ("reviews", "10"): READY,
        }
        assert [key for key, row in rows.items() if row.is_default] == [("reviews", "10")]


async def test_no_more_versions_are_loaded_than_are_kept(shelf) -> None:
    shelf.put("reviews", "11")
    async with on_the_wire(shelf) as wire:
        assert set(await wire.rows()) == {("reviews", "10"), ("reviews", "11")}
        shelf.put("reviews", "12")
        await wire.server.repository.load("reviews")
        assert wire.server.models.versions("reviews") == ["11", "12"]


async def test_models_given_by_name_stand_beside_the_bundle(tiny_bundle, shelf) -> None:
    settings = {"models": "", "model": (f"other={shelf.folder}/reviews/9",)}
    async with on_the_wire(shelf, tiny_bundle, **settings) as wire:
        for asked, answered in (("", "tiny"), ("tiny", "tiny"), ("other", "other")):
            answer = await wire.classifier.Classify(texts("a", model=asked), timeout=TIMEOUT)
            assert answer.model == answered
            assert answer.version == tiny_bundle.manifest.version
        code, message = await refused(wire.classifier.Tokenize(pb.TokenizeRequest(model="third")))
        assert code is grpc.StatusCode.NOT_FOUND
        assert "'other' or 'tiny'" in message


async def test_of_several_models_one_must_be_named(shelf) -> None:
    shelf.put("mails", "1")
    async with on_the_wire(shelf) as wire:
        code, message = await refused(wire.classifier.Classify(texts("a")))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert "'mails' or 'reviews'" in message


async def test_a_call_keeps_the_version_it_began_on_and_the_old_one_drains(shelf) -> None:
    async with on_the_wire(shelf, keep_versions=1) as wire:
        old = shelf.engines["10"]
        old.gate.clear()
        old.started.clear()
        begun = wire.classifier.Classify(texts("a"), timeout=TIMEOUT)
        await asyncio.to_thread(old.started.wait, TIMEOUT)
        shelf.put("reviews", "11")
        answer = await wire.admin.LoadModel(admin.LoadModelRequest(model="reviews"))
        assert (answer.previous_default_version, answer.default_version) == ("10", "11")
        assert await wire.versions("") == ["11"]
        assert (await wire.rows())["reviews", "10"].state == pb.MODEL_STATE_DRAINING
        old.gate.set()
        assert (await begun).version == "10"


async def test_a_call_that_has_not_reached_the_engine_yet_finds_it_still_there(shelf) -> None:
    async with on_the_wire(shelf) as wire:
        with wire.server.models.get("reviews", "10") as served:
            await wire.server.repository.load("reviews", "10")
            assert (await wire.rows())["reviews", "10"].state == pb.MODEL_STATE_DRAINING
            for _ in range(3):
                assert (await served.scheduler.classify([[5, 6]])).results
                await asyncio.sleep(0)
        await wire.server.repository.drained()
        with pytest.raises(DrainingError):
            await served.scheduler.classify([[5, 6]])


async def test_a_reloaded_versions_engine_is_gone_after_it_has_drained(shelf) -> None:
    async with on_the_wire(shelf) as wire:
        repository = wire.server.repository
        await wire.versions("", "")
        served = weakref.ref(wire.server.models.get("reviews", "10"))
        engine = weakref.ref(shelf.engines.pop("10"))
        await repository.load("reviews", "10")
        await repository.drained()
        async with asyncio.timeout(TIMEOUT):
            while served() or engine():  # its thread lets go when it ends
                gc.collect()
                await asyncio.sleep(0.01)
        assert await wire.versions("10") == ["10"]


async def test_a_broken_new_version_leaves_the_old_one_serving_and_is_told(shelf, caplog) -> None:
    async with on_the_wire(shelf) as wire:
        spoil(shelf.put("reviews", "11"))
        call = wire.admin.LoadModel(admin.LoadModelRequest(model="reviews"))
        code, message = await refused(call)
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        assert "known example" in message
        assert await wire.versions("", "10") == ["10", "10"]
        row = (await wire.rows())["reviews", "11"]
        assert row.state == FAILED
        assert "known example" in row.reason
        assert "known example" in caplog.text
        metrics = wire.server.metrics.registry
        labels = {"model": "reviews", "outcome": "failed"}
        assert metrics.get_sample_value("heedful_model_loads_total", labels) == 1


async def test_a_version_that_cannot_be_loaded_anew_goes_on_and_says_so(shelf) -> None:
    async with on_the_wire(shelf) as wire:
        spoil(shelf.folder / "reviews" / "10")
        await refused(wire.admin.LoadModel(admin.LoadModelRequest(model="reviews")))
        row = (await wire.rows())["reviews", "10"]
        assert row.state == READY
        assert "not loaded anew" in row.reason
        assert await wire.versions("10") == ["10"]


async def test_the_default_can_be_rolled_back_and_a_version_be_kept_beside_it(shelf) -> None:
    async with on_the_wire(shelf, keep_versions=3) as wire:
        request = admin.SetDefaultVersionRequest(model="reviews", version="9")
        answer = await wire.admin.SetDefaultVersion(request)
        assert answer.previous_default_version == "10"
        assert await wire.versions("") == ["9"]
        shelf.put("reviews", "11")
        beside = admin.LoadModelRequest(model="reviews", keep_default=True)
        assert (await wire.admin.LoadModel(beside)).default_version == "9"
        assert await wire.versions("", "11") == ["9", "11"]
        gone = admin.SetDefaultVersionRequest(model="reviews", version="8")
        code, message = await refused(wire.admin.SetDefaultVersion(gone))
        assert code is grpc.StatusCode.NOT_FOUND
        assert "'9'" in message


async def test_what_is_unloaded_is_not_found_and_can_come_back(shelf) -> None:
    async with on_the_wire(shelf) as wire:
        request = admin.UnloadModelRequest(model="reviews", version="10")
        answer = await wire.admin.UnloadModel(request)
        assert (list(answer.versions), answer.default_version) == (["10"], "9")
        assert await wire.versions("") == ["9"]
        answer = await wire.admin.UnloadModel(admin.UnloadModelRequest(model="reviews"))
        assert list(answer.versions) == ["9"]
        code, _ = await refused(wire.classifier.Classify(texts("a")))
        assert code is grpc.StatusCode.NOT_FOUND
        await wire.admin.LoadModel(admin.LoadModelRequest(model="reviews"))
        assert await wire.versions("") == ["10"]


async def test_only_what_the_operator_named_can_be_loaded(shelf) -> None:
    async with on_the_wire(shelf) as wire:
        for name in ("../models/reviews", "/etc", "other"):
            call = wire.admin.LoadModel(admin.LoadModelRequest(model=name))
            assert (await refused(call))[0] is grpc.StatusCode.NOT_FOUND
        call = wire.admin.LoadModel(admin.LoadModelRequest(model="reviews", version="../9"))
        assert (await refused(call))[0] is grpc.StatusCode.NOT_FOUND
        for request in (admin.LoadModelRequest(), admin.UnloadModelRequest()):
            method = request.DESCRIPTOR.name.removesuffix("Request")
            code, message = await refused(getattr(wire.admin, method)(request))
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert "names no model" in message


@pytest.mark.parametrize("method", ["LoadModel", "UnloadModel", "SetDefaultVersion"])
async def test_changes_by_call_are_off_unless_allowed(shelf, method) -> None:
    async with on_the_wire(shelf, allow_admin=False) as wire:
        request = getattr(admin, f"{method}Request")(model="reviews", version="9")
        code, message = await refused(getattr(wire.admin, method)(request))
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        assert "--allow-admin" in message
        assert set(await wire.rows()) == {("reviews", "9"), ("reviews", "10")}


async def test_queue_and_time_are_told_by_model_for_as_long_as_it_is_there(
    tmp_path, tiny_bundle
) -> None:
    shelf = Shelf(tmp_path / "two", tiny_bundle)
    for name in ("mails", "reviews"):
        shelf.put(name, name)  # the versions tell their engines apart
    async with on_the_wire(shelf) as wire:
        count = wire.server.metrics.registry.get_sample_value

        def told(what: str) -> dict[str, float | None]:
            return {name: count(f"heedful_model_{what}", {"model": name}) for name in names}

        names = ("mails", "reviews")
        held = shelf.engines["mails"]
        held.gate.clear()
        held.started.clear()
        request = texts("a", model="mails")
        calls = [wire.classifier.Classify(request, timeout=TIMEOUT)]
        assert await asyncio.to_thread(held.started.wait, 10)
        calls += [wire.classifier.Classify(request, timeout=TIMEOUT) for _ in range(2)]
        while wire.server.models.num_texts < 2:
            await asyncio.sleep(0)
        await wire.classifier.Classify(texts("a", model="reviews"), timeout=TIMEOUT)
        assert told("queue_texts") == {"mails": 2, "reviews": 0}
        ages, waits = told("queue_age_seconds"), told("queue_predicted_seconds")
        assert ages["mails"] > ages["reviews"] == 0
        assert waits["mails"] >= waits["reviews"] == 0
        held.gate.set()
        await asyncio.gather(*calls)
        assert told("seconds_count") == {"mails": 3, "reviews": 1}
        await wire.server.repository.unload("mails")
        for what in ("queue_texts", "seconds_count"):
            assert told(what)["mails"] is None
            assert told(what)["reviews"] is not None


async def test_calls_are_counted_by_version_for_as_long_as_it_is_there(shelf) -> None:
    async with on_the_wire(shelf) as wire:
        await wire.versions("", "10", "9")
        await refused(wire.classifier.Classify(texts("a", target_label="secret")))
        count = wire.server.metrics.registry.get_sample_value

        def calls(version: str, outcome: str) -> float | None:
            labels = {"model": "reviews", "version": version, "outcome": outcome}
            return count("heedful_model_calls_total", labels)

        assert (calls("10", "answered"), calls("9", "answered")) == (2, 1)
        assert (calls("10", "refused"), calls("9", "refused")) == (1, 0)
        await wire.server.repository.load("reviews", "10")
        await wire.server.repository.unload("reviews", "9")
        await wire.server.repository.drained()
        assert (calls("10", "answered"), calls("9", "answered")) == (2, None)


async def test_a_server_that_stops_gives_up_what_it_is_loading(shelf) -> None:
    loading, go_on = threading.Event(), threading.Event()

    def load(bundle, config):
        if bundle.manifest.version == "11":
            loading.set()
            go_on.wait(TIMEOUT)
        return Shelf.load(shelf, bundle, config)

    shelf.load = load
    async with asyncio.timeout(TIMEOUT):
        async with on_the_wire(shelf) as wire:
            shelf.put("reviews", "11")
            call = wire.admin.LoadModel(admin.LoadModelRequest(model="reviews"))
            await asyncio.to_thread(loading.wait, TIMEOUT)
            assert (await wire.rows())["reviews", "11"].state == pb.MODEL_STATE_LOADING
            assert await wire.versions("") == ["10"]
            # Its grace is 5 s; the load would take longer.
            stopping = asyncio.create_task(wire.server.stop())
            assert (await refused(call))[0] is grpc.StatusCode.UNAVAILABLE
            go_on.set()
            assert await stopping


async def test_a_bundle_given_at_the_start_can_be_loaded_anew(tiny_bundle, shelf) -> None:
    path = shelf.folder / "reviews" / "9"
    async with on_the_wire(shelf, load_bundle(path), models="") as wire:
        version = tiny_bundle.manifest.version
        answer = await wire.admin.LoadModel(admin.LoadModelRequest(model="tiny"))
        assert (answer.version, answer.previous_default_version) == (version, version)
        (path / "tokenizer.json").unlink()
        code, message = await refused(wire.admin.LoadModel(admin.LoadModelRequest(model="tiny")))
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        assert "tokenizer.json is missing" in message
        assert "missing" in (await wire.rows())["tiny", ""].reason
        assert await wire.versions("") == [version]


async def test_a_server_starts_with_what_loads_and_not_with_nothing(shelf) -> None:
    spoil(shelf.folder / "reviews" / "10")
    async with on_the_wire(shelf) as wire:
        assert await wire.versions("") == ["9"]
        assert (await wire.rows())["reviews", "10"].state == FAILED
    spoil(shelf.folder / "reviews" / "9")
    config = ServerConfig(models=str(shelf.folder), **FREE)
    with pytest.raises(SetupError, match=r"could be loaded.*known example"):
        await Server(config, None, shelf.load).start()
    with pytest.raises(SetupError, match="cannot be read"):
        await Server(ServerConfig(models=str(shelf.folder / "no"), **FREE)).start()
    with pytest.raises(SetupError, match="NAME=DIR"):
        Server(ServerConfig(model=("reviews",), **FREE))
    with pytest.raises(BundleError, match=r"no bundle\.json"):
        await Server(ServerConfig(model=(f"a={shelf.folder}",), **FREE)).start()
