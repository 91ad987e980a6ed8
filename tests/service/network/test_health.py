"""The standard health protocol, over a server whose loading the test holds in its hands."""

import asyncio
import threading

import grpc
import pytest
from grpc_health.v1 import health_pb2 as pb
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from model.errors import BundleError
from service.config import ServerConfig
from service.server import Server
from tests.service.calls import TIMEOUT
from tests.service.engines import GoldenEngine, NumpyEngine

NOT_SERVING, SERVING = pb.HealthCheckResponse.NOT_SERVING, pb.HealthCheckResponse.SERVING
FREE = ServerConfig(port=0, metrics_port=0, grace=5.0)
SERVICES = ["", "heedful.v1.Classifier"]


def check(service: str) -> pb.HealthCheckRequest:
    return pb.HealthCheckRequest(service=service)


@pytest.mark.parametrize("service", SERVICES)
def test_a_server_that_answers_is_serving(server, service) -> None:
    with grpc.insecure_channel(server.address) as channel:
        answer = HealthStub(channel).Check(check(service), timeout=TIMEOUT)
    assert answer.status == SERVING


def test_a_service_that_is_not_here_is_not_found(server) -> None:
    with grpc.insecure_channel(server.address) as channel:
        with pytest.raises(grpc.RpcError) as refused:
            HealthStub(channel).Check(check("other"), timeout=TIMEOUT)
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        watch = HealthStub(channel).Watch(check("other"), timeout=TIMEOUT)
        assert next(watch).status == pb.HealthCheckResponse.SERVICE_UNKNOWN
        watch.cancel()


async def test_health_turns_serving_after_loading_and_back_before_stopping(tiny_bundle) -> None:
    loading, loaded = threading.Event(), threading.Event()

    def load(bundle, config):
        loading.set()
        assert loaded.wait(TIMEOUT)
        return GoldenEngine(bundle)

    async with asyncio.timeout(TIMEOUT):
        server = Server(FREE, tiny_bundle, load)
        starting = asyncio.create_task(server.start())
        await asyncio.to_thread(loading.wait, TIMEOUT)
        async with grpc.aio.insecure_channel(server.address) as channel:
            health = HealthStub(channel)
            watches = [health.Watch(check(service)) for service in SERVICES for _ in range(2)]
            # One watcher that leaves must not take the others' news with it.
            leaving = health.Watch(check(""))
            assert [(await watch.read()).status for watch in [*watches, leaving]] == [
                *[NOT_SERVING] * 5
            ]
            leaving.cancel()
            loaded.set()
            await starting
            assert [(await watch.read()).status for watch in watches] == [SERVING] * 4
            # Open watches do not hold up the stop until its grace is over.
            assert await server.stop()
            assert [(await watch.read()).status for watch in watches] == [NOT_SERVING] * 4


async def test_a_wrong_known_example_keeps_the_server_from_starting(tiny_bundle) -> None:
    server = Server(FREE, tiny_bundle, lambda bundle, config: NumpyEngine())
    with pytest.raises(BundleError, match="known example"):
        await server.start()


def test_reflection_names_the_services(server) -> None:
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    with grpc.insecure_channel(server.address) as channel:
        (answer,) = ServerReflectionStub(channel).ServerReflectionInfo(
            iter([request]), timeout=TIMEOUT
        )
    names = {service.name for service in answer.list_services_response.service}
    assert {"heedful.v1.Classifier", "grpc.health.v1.Health"} <= names
