"""Texts that come again, on a real server with an answer cache."""

import asyncio
import urllib.request

import grpc
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from heedful import Client
from heedful.oip import open_inference_pb2 as oip
from heedful.v1 import admin_pb2 as admin
from heedful.v1 import classifier_pb2 as pb
from heedful.v1.classifier_pb2_grpc import ClassifierStub
from service.request.allowance import Allowance
from tests.service.calls import TIMEOUT, Caller, texts
from tests.service.engines import NOT_A_NUMBER, GoldenEngine, hold
from tests.service.network.test_streams import in_queue, until
from tests.service.oip.calls import raw_texts, tensors
from tests.service.shelves import Shelf, on_the_wire


@pytest.fixture
def caching(start_server, tiny_bundle, engine):
    """A server with a cache, whose engine the test can look at."""
    server = start_server(tiny_bundle, load=lambda bundle, config: engine, cache_mb=1)
    engine.runs.clear()
    yield server
    engine.gate.set()
    server.stop()


@pytest.fixture
def asked(caching):
    with grpc.insecure_channel(caching.address) as channel:
        yield Caller(ClassifierStub(channel), channel)


def marks(answer: pb.ClassifyResponse) -> list[bool]:
    return [result.cached for result in answer.results]


def counted(server) -> dict[str, float]:
    with urllib.request.urlopen(server.server.metrics_url, timeout=10) as page:  # noqa: S310
        families = text_string_to_metric_families(page.read().decode())
    return {
        sample.name.removeprefix("heedful_cache_"): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith("heedful_cache_") and not sample.name.endswith("_created")
    }


def test_a_text_that_comes_again_gets_the_same_answer_without_an_engine(
    caching, asked, engine
) -> None:
    first, again = asked.classify("kind film"), asked.classify("kind film")
    assert (marks(first), marks(again)) == ([False], [True])
    assert first.results[0].labels == again.results[0].labels
    assert len(engine.runs) == 1
    assert again.timings.queue_seconds == again.timings.compute_seconds == 0
    counts = counted(caching)
    assert (counts["hits_total"], counts["misses_total"]) == (1, 1)
    assert 0 < counts["bytes"] < 1 << 20


def test_only_texts_that_are_new_are_computed_and_all_keep_their_places(asked, engine) -> None:
    asked.classify("film", "room")
    mixed = asked.classify("kind", "film", "warm kind film", "room", "film")
    assert marks(mixed) == [False, True, False, True, True]
    assert sum(map(len, engine.runs)) == 4
    alone = [asked.classify(text).results[0] for text in ("kind", "film", "warm kind film")]
    assert [list(item.labels) for item in mixed.results[:3]] == [list(a.labels) for a in alone]


def test_a_full_hit_needs_no_engine(asked, engine) -> None:
    asked.classify("film")
    running = hold(asked, engine)
    assert marks(asked.classify("film")) == [True]
    assert not running.done()
    engine.gate.set()
    running.result(TIMEOUT)


@pytest.fixture
def full(start_server, tiny_bundle, engine):
    """A server whose cache knows "film" and "room" and whose queue is full, and its caller."""
    server = start_server(
        tiny_bundle, load=lambda bundle, config: engine, cache_mb=1, max_queue_texts=2, max_inputs=2
    )
    with grpc.insecure_channel(server.address) as channel:
        caller = Caller(ClassifierStub(channel), channel)
        caller.classify("film", "room")
        calls = [hold(caller, engine)]
        calls.append(caller.stub.Classify.future(texts("warm", "bright"), timeout=TIMEOUT))
        until(lambda: in_queue(server, "queue") == 2)
        yield server, caller
        engine.gate.set()
        assert all(call.result().results for call in calls)
    server.stop()


def test_what_the_cache_has_is_answered_though_the_queue_is_full(full) -> None:
    server, caller = full
    before = counted(server)
    assert marks(caller.classify("film", "room")) == [True, True]
    requests = [pb.ClassifyStreamRequest(id="a", request=texts("film"))]
    (streamed,) = caller.stub.ClassifyStream(iter(requests), timeout=TIMEOUT)
    assert marks(streamed.response) == [True]
    assert counted(server)["hits_total"] == before["hits_total"] + 3


def test_what_takes_an_engine_is_refused_though_some_of_it_is_kept(full) -> None:
    server, caller = full
    before = counted(server)
    for request in (texts("film", "kind film"), texts("film", attention=pb.AttentionOptions())):
        assert caller.refused(request).reason == "QUEUE_FULL"
    assert counted(server) == before


def test_an_overloaded_server_tokenizes_only_so_much_in_vain(full) -> None:
    server, caller = full

    def tokenized() -> float:
        return server.server.metrics.registry.get_sample_value("heedful_tokenize_seconds_count")

    long = "kind " * 9000
    before = tokenized()
    reasons = {caller.refused(texts(long, truncation=pb.TRUNCATION_HEAD)).reason for _ in range(10)}
    assert reasons == {"QUEUE_FULL"}
    assert 1 <= tokenized() - before < 10


def test_an_allowance_is_saved_for_a_second_and_given_back() -> None:
    now = [0.0]
    allowance = Allowance(100, clock=lambda: now[0])
    assert allowance.take(100)
    assert not allowance.take(1)
    allowance.give_back(30)
    assert [allowance.take(30), allowance.take(1)] == [True, False]
    now[0] = 60.0
    assert not allowance.take(101)
    assert [allowance.take(100), allowance.take(1)] == [True, False]
    now[0] = 60.5
    assert [allowance.take(50), allowance.take(1)] == [True, False]


def test_truncation_and_tokens_are_of_the_request_that_asks(asked) -> None:
    asked.classify("film")
    again = asked.classify("film", return_tokens=True, top_k=1)
    assert marks(again) == [True]
    assert again.results[0].tokens[0].piece == "[CLS]"
    assert len(again.results[0].labels) == 1
    long = "film " * 60
    asked.classify(long, truncation=pb.TRUNCATION_HEAD)
    longer = asked.classify(long + "film", truncation=pb.TRUNCATION_HEAD).results[0]
    assert longer.cached
    assert longer.truncated.original_tokens == 63


def test_attention_is_always_computed(caching, asked, engine) -> None:
    asked.classify("film")
    for _ in range(2):
        answer = asked.classify("film", attention=pb.AttentionOptions(heads=[0]))
        assert marks(answer) == [False]
        assert answer.results[0].attention.data
    assert len(engine.runs) == 3
    assert counted(caching)["misses_total"] == 1


def test_an_answer_that_is_not_a_number_is_not_kept(caching, asked, engine) -> None:
    ids = pb.Input(token_ids=pb.TokenIds(ids=[2, NOT_A_NUMBER]))
    for _ in range(2):
        assert asked.refused(pb.ClassifyRequest(inputs=[ids])).code == grpc.StatusCode.INTERNAL
    assert len(engine.runs) == 2
    assert counted(caching)["bytes"] == 0


def test_every_protocol_shares_one_cache(caching, asked) -> None:
    first = asked.classify("kind film").results[0]
    requests = [pb.ClassifyStreamRequest(id="a", request=texts("kind film"))]
    (streamed,) = asked.stub.ClassifyStream(iter(requests), timeout=TIMEOUT)
    assert marks(streamed.response) == [True]
    infer = asked.channel.unary_unary(
        "/inference.GRPCInferenceService/ModelInfer",
        request_serializer=oip.ModelInferRequest.SerializeToString,
        response_deserializer=oip.ModelInferResponse.FromString,
    )
    inferred = infer(raw_texts("kind film", "new"), timeout=TIMEOUT)
    assert inferred.parameters["cached"].string_param == "[true, false]"
    by_index = [s.logit for s in sorted(first.labels, key=lambda score: score.index)]
    np.testing.assert_array_equal(tensors(inferred)["logits"][0], np.array(by_index, "<f4"))


def test_the_python_client_says_what_was_cached(caching) -> None:
    with Client(caching.address) as client:
        first, again = (client.classify("kind film", timeout=TIMEOUT) for _ in range(2))
    assert (first.cached, again.cached) == (False, True)
    assert first == again


def test_without_the_option_nothing_is_kept(held_server, held, engine) -> None:
    engine.gate.set()
    assert [marks(held.classify("film")) for _ in range(2)] == [[False], [False]]
    assert counted(held_server) == {"hits_total": 0, "misses_total": 0, "bytes": 0}


class ShiftedEngine(GoldenEngine):
    """Every one made says something else, as another set of weights would."""

    num_made = 0

    def __init__(self, bundle) -> None:
        super().__init__(bundle)
        ShiftedEngine.num_made += 1
        self._shift = np.float32(ShiftedEngine.num_made)

    def run(self, rows):
        logits = super().run(rows)
        return (
            logits
            if len(self.runs[-1][0]) == len(self._golden.input_ids)
            else (logits + self._shift)
        )


class ShiftedShelf(Shelf):
    def load(self, bundle, config):
        self.engines[bundle.manifest.version] = engine = ShiftedEngine(self._bundle)
        return engine


async def ask(wire) -> tuple[bool, float]:
    answer = await wire.classifier.Classify(texts("film"), timeout=TIMEOUT)
    return answer.results[0].cached, answer.results[0].labels[0].logit


async def test_a_version_loaded_anew_gives_new_answers_and_an_unloaded_one_leaves_none(
    tmp_path, tiny_bundle
) -> None:
    shelf = ShiftedShelf(tmp_path / "models", tiny_bundle)
    shelf.put("reviews", "1")
    async with on_the_wire(shelf, cache_mb=1) as wire:

        def held_bytes():
            return wire.server.metrics.registry.get_sample_value("heedful_cache_bytes")

        hit, before = await ask(wire)
        assert not hit
        assert await ask(wire) == (True, before)
        await wire.server.repository.load("reviews", "1")
        assert await ask(wire) == (False, before + 1)
        await wire.server.repository.drained()
        one = held_bytes()
        shelf.put("reviews", "2")
        await wire.server.repository.load("reviews")
        assert await ask(wire) == (False, before + 2)
        assert await ask(wire) == (True, before + 2)
        assert held_bytes() == 2 * one
        await wire.admin.UnloadModel(
            admin.UnloadModelRequest(model="reviews", version="2"), timeout=TIMEOUT
        )
        assert held_bytes() == one
        assert await ask(wire) == (True, before + 1)


async def test_a_call_that_outlives_its_version_leaves_no_answer(tmp_path, tiny_bundle) -> None:
    shelf = Shelf(tmp_path / "models", tiny_bundle)
    shelf.put("reviews", "1")
    shelf.put("reviews", "2")
    async with on_the_wire(shelf, cache_mb=1) as wire:
        engine = shelf.engines["2"]
        engine.gate.clear()
        engine.started.clear()
        call = wire.classifier.Classify(texts("film"), timeout=TIMEOUT)
        assert await asyncio.to_thread(engine.started.wait, 10)
        unloading = asyncio.create_task(wire.server.repository.unload("reviews", "2"))
        while wire.server.models.versions("reviews") != ["1"]:
            await asyncio.sleep(0)
        engine.gate.set()
        assert (await call).version == "2"
        assert await unloading == ["2"]
        registry = wire.server.metrics.registry
        assert registry.get_sample_value("heedful_cache_misses_total") == 1
        assert registry.get_sample_value("heedful_cache_bytes") == 0
