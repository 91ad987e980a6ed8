"""What the tests of the server share: a stub of a running one."""

from collections.abc import Iterator

import grpc
import pytest

from heedful.v1.classifier_pb2_grpc import ClassifierStub
from tests.service.calls import Caller


@pytest.fixture
def caller(server) -> Iterator[Caller]:
    """Calls the tiny bundle's server, once with each backend."""
    with grpc.insecure_channel(server.address) as channel:
        yield Caller(ClassifierStub(channel), channel)
