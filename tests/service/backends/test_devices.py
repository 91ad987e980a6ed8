"""CUDA that is not there, a device that fails for good, and what of CUDA runs on a CPU too."""

import asyncio
import subprocess
import sys

import grpc
import numpy as np
import onnxruntime
import pytest
import torch
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub

from heedful.v1 import classifier_pb2 as pb
from heedful.v1.classifier_pb2_grpc import ClassifierStub
from model.errors import BundleError, SetupError
from model.packing import pack
from model.weights import load_encoder
from service.backends.cuda import RECORD_ASSIGNMENT, check_computes, run_bound
from service.backends.device import DeviceError
from service.backends.loading import BFLOAT16_TOLERANCE
from service.backends.torch_backend import Network
from service.config import ServerConfig
from service.errors import LoadFailedError
from service.versions.instances import plan_run_tokens
from service.versions.serving import _warm_up_fitting
from tests.service.calls import TIMEOUT, refusal_of, texts
from tests.service.engines import GoldenEngine
from tests.service.processes import running
from tests.service.scheduling.test_fitting import ORT_LOST, ORT_MEMORY

NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
HAS_CUDA = torch.cuda.is_available() or "CUDAExecutionProvider" in (
    onnxruntime.get_available_providers()
)
without_cuda = pytest.mark.skipif(HAS_CUDA, reason="this machine has CUDA")

LOST_PROCESS = """
import sys
from pathlib import Path
import logging
from service.config import ServerConfig
from service.process import run
from tests.service.backends import test_devices

def load(bundle, config):
    return getattr(test_devices, sys.argv[2])(bundle)

logging.basicConfig(level="INFO", stream=sys.stderr)
config = ServerConfig(port=0, metrics_port=0, instances=1, threads=1, drain_delay=60)
sys.exit(run(config, Path(sys.argv[1]), load))
"""


class FailingEngine(GoldenEngine):
    """Answers its known example, and loses its device at anything else."""

    def run(self, rows):
        logits = super().run(rows)
        is_warm_up = len(set(rows.input_ids.flat)) == 1
        if not is_warm_up and self.runs[-1] != [tuple(self._golden.input_ids)]:
            raise RuntimeError(ORT_LOST)
        return logits


class StillbornEngine(GoldenEngine):
    """Loses its device in the first run of all."""

    def run(self, rows):
        raise RuntimeError(ORT_LOST)


class RoomyEngine(GoldenEngine):
    """Has memory for so many tokens at once."""

    room = 0

    def run(self, rows):
        logits = super().run(rows)
        if rows.num_tokens > self.room:
            raise RuntimeError(ORT_MEMORY)
        return logits


@without_cuda
@pytest.mark.parametrize("backend", ["onnx", "torch"])
def test_without_the_device_nothing_starts(start_server, exported_bundle, backend) -> None:
    with pytest.raises(SetupError, match="the device cuda:1 was asked for"):
        start_server(exported_bundle, backend=backend, device="cuda:1")


@without_cuda
def test_where_it_is_allowed_the_cpu_serves_and_says_so(
    start_server, exported_bundle, caplog
) -> None:
    with caplog.at_level("WARNING"):
        server = start_server(exported_bundle, device="cuda", allow_cpu=True)
    assert "--allow-cpu permits: the device cuda was asked for" in caplog.text
    with grpc.insecure_channel(server.address) as channel:
        stub = ClassifierStub(channel)
        assert stub.GetModel(pb.GetModelRequest(), timeout=TIMEOUT).device == "cpu"
        assert stub.Classify(texts("a"), timeout=TIMEOUT).results
    registry = server.server.metrics.registry
    (info,) = [metric for metric in registry.collect() if metric.name == "heedful_model_info"]
    assert [sample.labels["device"] for sample in info.samples] == ["cpu"]


def test_where_it_is_allowed_the_cpu_serves_int8_and_says_so(
    start_server, int8_bundle, caplog
) -> None:
    with pytest.raises(DeviceError, match="computes on the CPU only"):
        start_server(int8_bundle, device="cuda")
    with caplog.at_level("WARNING"):
        server = start_server(int8_bundle, device="cuda", allow_cpu=True)
    assert "--allow-cpu permits" in caplog.text
    with grpc.insecure_channel(server.address) as channel:
        answer = ClassifierStub(channel).GetModel(pb.GetModelRequest(), timeout=TIMEOUT)
    assert (answer.device, answer.precision) == ("cpu", "int8")


def test_runs_are_large_on_cuda_unless_told() -> None:
    assert plan_run_tokens(ServerConfig()) == 256
    assert plan_run_tokens(ServerConfig(device="cuda:0")) == 16384
    assert plan_run_tokens(ServerConfig(device="cuda:0", run_tokens=300)) == 300


def test_the_warm_up_finds_runs_that_fit(tiny_bundle) -> None:
    engine = RoomyEngine(tiny_bundle)
    engine.room = 300
    assert _warm_up_fitting(engine, tiny_bundle, 2048)[1] == 256
    engine.room = tiny_bundle.manifest.max_tokens - 1
    with pytest.raises(BundleError, match="Failed to allocate memory"):
        _warm_up_fitting(engine, tiny_bundle, 2048)


def test_a_lost_device_turns_health(start_server, tiny_bundle) -> None:
    server = start_server(tiny_bundle, load=lambda bundle, config: FailingEngine(bundle))
    with grpc.insecure_channel(server.address) as channel:
        with pytest.raises(grpc.RpcError) as refused:
            ClassifierStub(channel).Classify(texts("a word"), timeout=TIMEOUT)
        assert refusal_of(refused.value).reason == "DEVICE_LOST"
        watch = HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=TIMEOUT)
        assert any(answer.status == NOT_SERVING for answer in watch)
    assert server.server.lost.is_set()


def test_a_process_that_lost_its_device_ends_with_70(tiny_bundle) -> None:
    command = [sys.executable, "-c", LOST_PROCESS, str(tiny_bundle.path), "FailingEngine"]
    with running(command) as process:
        with grpc.insecure_channel(process.address) as channel:
            calls = [
                ClassifierStub(channel).Classify.future(texts("a word"), timeout=TIMEOUT)
                for _ in range(5)
            ]
            assert {call.code() for call in calls} == {grpc.StatusCode.UNAVAILABLE}
        assert process.ended() == 70
    assert "an engine or gRPC is lost; exit code 70" in process.log


def test_a_process_that_loses_its_device_while_starting_ends_with_70(tiny_bundle) -> None:
    command = [sys.executable, "-c", LOST_PROCESS, str(tiny_bundle.path), "StillbornEngine"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 70, done.stderr
    assert "failed while warming up (RuntimeError:" in done.stderr
    assert "an engine or gRPC is lost; exit code 70" in done.stderr


def test_a_new_version_that_costs_the_device_ends_the_server(start_server, tiny_bundle) -> None:
    engines = [GoldenEngine(tiny_bundle), StillbornEngine(tiny_bundle)]
    server = start_server(tiny_bundle, load=lambda bundle, config: engines.pop(0))
    assert not server.server.lost.is_set()
    loading = server.server.repository.load("tiny")
    with pytest.raises(LoadFailedError):
        asyncio.run_coroutine_threadsafe(loading, server._loop).result(TIMEOUT)
    assert server.server.lost.is_set()


def random_rows(seed: int):
    chance = np.random.default_rng(seed)
    lengths = chance.integers(1, 42, size=chance.integers(1, 10))
    return pack([chance.integers(150, size=length).tolist() for length in lengths])


@pytest.fixture(scope="module")
def sessions(exported_bundle) -> dict[str, onnxruntime.InferenceSession]:
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry(RECORD_ASSIGNMENT, "1")
    return {
        name: onnxruntime.InferenceSession(
            exported_bundle.file(f"{name}.onnx"), options, providers=["CPUExecutionProvider"]
        )
        for name in ("classify", "attention")
    }


def test_bound_inputs_give_the_answers_of_a_plain_run(sessions) -> None:
    names = ("input_ids", "position_ids", "sequence_ids", "cls_index")
    for seed in range(5):
        feed = {name: getattr(random_rows(seed), name) for name in names}
        (bound,) = run_bound(sessions["classify"], ["logits"], feed)
        (plain,) = sessions["classify"].run(["logits"], feed)
        assert np.array_equal(bound, plain)


@pytest.mark.parametrize("graph", ["classify", "attention"])
def test_heavy_operators_elsewhere_than_on_the_device_are_refused(sessions, graph) -> None:
    check_computes(sessions[graph], "CPUExecutionProvider", "cpu")
    with pytest.raises(DeviceError, match=r"would compute Gemm, MatMul elsewhere than on cuda:0"):
        check_computes(sessions[graph], "CUDAExecutionProvider", "cuda:0")


def test_bfloat16_stays_within_its_tolerance_and_attention_is_float32(exported_bundle) -> None:
    encoder = load_encoder(exported_bundle)
    half = Network(encoder, "cpu", bfloat16=True)
    full = Network(encoder, "cpu", bfloat16=False)
    assert (half.precision, full.precision) == ("bfloat16", "float32")
    for seed in range(5):
        rows = random_rows(seed)
        logits, attentions = half.logits_and_attentions(rows)
        expected, expected_attentions = full.logits_and_attentions(rows)
        assert np.array_equal(logits, half.logits(rows))
        assert logits.dtype == attentions.dtype == np.float32
        assert 0 < np.abs(logits - expected).max() < BFLOAT16_TOLERANCE
        assert np.array_equal(attentions, expected_attentions)


def test_nothing_is_compiled_after_the_network_is_loaded(exported_bundle) -> None:
    compiled: list[int] = []

    def compiler(graph, inputs):
        compiled.append(len(inputs))
        return graph.forward

    torch._dynamo.reset()
    network = Network(load_encoder(exported_bundle), "cpu", bfloat16=True, compiler=compiler)
    before = len(compiled)
    plain = Network(load_encoder(exported_bundle), "cpu", bfloat16=True)
    for seed in range(30):
        rows = random_rows(seed)
        np.testing.assert_allclose(network.logits(rows), plain.logits(rows), atol=0.05)
    assert 0 < before == len(compiled)


def test_a_network_that_cannot_be_compiled_says_what_to_do(exported_bundle) -> None:
    def compiler(graph, inputs):
        raise RuntimeError("no C compiler here")

    torch._dynamo.reset()
    with pytest.raises(SetupError, match=r"no C compiler here.*--no-compile"):
        Network(load_encoder(exported_bundle), "cpu", bfloat16=False, compiler=compiler)
    torch._dynamo.reset()
