"""A stub of the Open Inference Protocol for the server with the tiny bundle."""

from collections.abc import Iterator

import grpc
import pytest

from heedful.oip.open_inference_pb2_grpc import GRPCInferenceServiceStub
from tests.service.oip.calls import Peer


@pytest.fixture
def peer(server) -> Iterator[Peer]:
    """Asks the tiny bundle's server, once with each backend."""
    with grpc.insecure_channel(server.address) as channel:
        yield Peer(GRPCInferenceServiceStub(channel))
