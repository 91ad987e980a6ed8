"""What the tests of the server share: a stub of a running one."""

from collections.abc import Iterator

import grpc
import pytest

from heedful.v1.classifier_pb2_grpc import ClassifierStub
from tests.service.calls import Caller
from tests.service.engines import GoldenEngine


@pytest.fixture
def caller(server) -> Iterator[Caller]:
    """Calls the tiny bundle's server, once with each backend."""
    with grpc.insecure_channel(server.address) as channel:
        yield Caller(ClassifierStub(channel), channel)


@pytest.fixture
def engine(tiny_bundle) -> GoldenEngine:
    return GoldenEngine(tiny_bundle)


@pytest.fixture
def held_server(start_server, tiny_bundle, engine):
    """A server whose engine the test holds in its hands, with little room."""
    server = start_server(
        tiny_bundle,
        load=lambda bundle, config: engine,
        max_queue_texts=2,
        max_inputs=2,
        max_attention_bytes=500,
        default_timeout=0.2,
    )
    yield server
    engine.gate.set()
    server.stop()


@pytest.fixture
def held(held_server):
    with grpc.insecure_channel(held_server.address) as channel:
        yield Caller(ClassifierStub(channel), channel)
