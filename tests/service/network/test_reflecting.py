"""A stream of reflection that a caller leaves open, as tools like grpcurl do."""

import queue

import grpc
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from heedful.v1.classifier_pb2_grpc import ClassifierStub
from tests.service.calls import TIMEOUT, Caller
from tests.service.engines import hold

LIST = reflection_pb2.ServerReflectionRequest(list_services="")


def test_an_open_stream_ends_at_a_stop_and_calls_in_flight_are_answered(
    start_server, tiny_bundle, engine
) -> None:
    server = start_server(tiny_bundle, load=lambda bundle, config: engine)
    requests: queue.SimpleQueue = queue.SimpleQueue()
    requests.put(LIST)
    with grpc.insecure_channel(server.address) as channel:
        stub = ServerReflectionStub(channel)
        stream = stub.ServerReflectionInfo(iter(requests.get, None), timeout=TIMEOUT)
        assert next(stream).list_services_response.service
        in_flight = hold(Caller(ClassifierStub(channel), channel), engine)
        server.begin_stop()
        # Before the engine goes on: nothing but the stop can have ended it.
        assert list(stream) == []
        assert stream.code() is grpc.StatusCode.OK
        assert not in_flight.done()
        engine.gate.set()
        assert in_flight.result().results
        assert server.stop()
        requests.put(None)


def test_a_malformed_request_does_not_end_the_stream(server) -> None:
    empty = reflection_pb2.ServerReflectionRequest()
    with grpc.insecure_channel(server.address) as channel:
        first, second = ServerReflectionStub(channel).ServerReflectionInfo(
            iter([empty, LIST]), timeout=TIMEOUT
        )
    assert first.error_response.error_code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert second.list_services_response.service
