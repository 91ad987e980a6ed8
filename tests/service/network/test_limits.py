"""Connections and calls are bounded, aged and can be looked into."""

import socket

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from heedful.v1 import classifier_pb2 as pb
from heedful.v1.classifier_pb2_grpc import ClassifierStub
from model.errors import SetupError
from service.config import ServerConfig
from tests.service.calls import TIMEOUT, Caller, texts
from tests.service.engines import hold
from tests.service.network.test_streams import in_queue, until

GOAWAY = 7


@pytest.fixture
def serve(start_server, tiny_bundle, engine):
    """Starts servers on the test's engine."""
    servers = []

    def start(**settings):
        server = start_server(tiny_bundle, load=lambda bundle, config: engine, **settings)
        servers.append(server)
        return server

    yield start
    engine.gate.set()
    for server in servers:
        server.stop()


def next_frame(line: socket.socket) -> int:
    """The type of the next HTTP/2 frame."""
    header = line.recv(9, socket.MSG_WAITALL)
    size = int.from_bytes(header[:3], "big")
    line.recv(size, socket.MSG_WAITALL)
    return header[3]


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    line = socket.create_connection((host, int(port)), timeout=TIMEOUT)
    line.settimeout(TIMEOUT)
    return line


def is_open(line: socket.socket) -> bool:
    """Whether the server says hello in HTTP/2 or hangs up."""
    try:
        return line.recv(9) != b""
    except ConnectionResetError:
        return False


def test_connections_over_the_limit_are_closed_and_those_before_go_on(serve) -> None:
    server = serve(max_connections=2)
    with grpc.insecure_channel(server.address) as channel:
        stub = ClassifierStub(channel)
        assert stub.Classify(texts("kind"), timeout=TIMEOUT).results
        with connect(server.address) as second, connect(server.address) as third:
            assert is_open(second)
            assert not is_open(third)
        assert stub.Classify(texts("kind"), timeout=TIMEOUT).results
        with connect(server.address) as fourth:
            assert is_open(fourth), "there is room again"


def test_calls_over_the_limit_of_a_connection_wait_at_the_caller(serve, engine) -> None:
    server = serve(max_concurrent_streams=3)
    with grpc.insecure_channel(server.address) as channel:
        caller = Caller(ClassifierStub(channel), channel)
        calls = [hold(caller, engine)]
        calls += [caller.stub.Classify.future(texts("a"), timeout=TIMEOUT) for _ in range(5)]
        until(lambda: in_queue(server, "queue") == 2)
        with grpc.insecure_channel(
            server.address, [("grpc.use_local_subchannel_pool", 1)]
        ) as another:
            stub = ClassifierStub(another)
            assert stub.GetModel(pb.GetModelRequest(), timeout=TIMEOUT).model
        assert in_queue(server, "queue") == 2
        engine.gate.set()
        # gRPC's two ends count a call that is ending differently for a moment.
        codes = {call.code() for call in calls}
        assert codes <= {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
        assert caller.classify("kind").results


def test_an_aged_connection_is_ended_and_its_calls_finish(serve, engine) -> None:
    server = serve(max_connection_age=0.2, max_connection_age_grace=10)
    with grpc.insecure_channel(server.address) as channel:
        call = hold(Caller(ClassifierStub(channel), channel), engine)
        with connect(server.address) as line:
            line.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
            until(lambda: next_frame(line) == GOAWAY)
        engine.gate.set()
        assert call.result().results
        assert ClassifierStub(channel).Classify(texts("kind"), timeout=TIMEOUT).results


def services(address: str, **settings) -> set[str]:
    with grpc.insecure_channel(address) as channel:
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        answers = ServerReflectionStub(channel).ServerReflectionInfo(iter([request]))
        (answer,) = answers
        return {service.name for service in answer.list_services_response.service}


def test_channelz_shows_the_server_when_it_is_asked_for(serve) -> None:
    from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc

    server = serve(channelz=True)
    assert "grpc.channelz.v1.Channelz" in services(server.address)
    with grpc.insecure_channel(server.address) as channel:
        ClassifierStub(channel).Classify(texts("kind"), timeout=TIMEOUT)
        found = channelz_pb2_grpc.ChannelzStub(channel).GetServers(
            channelz_pb2.GetServersRequest(), timeout=TIMEOUT
        )
    assert sum(entry.data.calls_started for entry in found.server) >= 2


def test_channelz_is_off_unless_asked_for(serve) -> None:
    server = serve()
    assert "grpc.channelz.v1.Channelz" not in services(server.address)
    with grpc.insecure_channel(server.address) as channel:
        call = channel.unary_unary("/grpc.channelz.v1.Channelz/GetServers").future(b"")
        assert call.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    "settings",
    [
        {"max_connections": 0},
        {"max_concurrent_streams": 0},
        {"keepalive_seconds": 0},
        {"max_connection_age": -1},
        {"max_connection_age": 3e6},
        {"keepalive_seconds": float("nan")},
    ],
)
def test_limits_that_make_no_sense_are_refused(settings) -> None:
    with pytest.raises(SetupError, match=next(iter(settings))):
        ServerConfig(**settings)
