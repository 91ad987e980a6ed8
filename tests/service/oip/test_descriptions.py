"""What a server tells of itself and its models, while it serves and while it stops."""

import json
import shutil

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from heedful.oip import open_inference_pb2 as oip
from heedful.oip.open_inference_pb2_grpc import GRPCInferenceServiceStub
from tests.conftest import LABELS
from tests.service.calls import TIMEOUT, texts
from tests.service.engines import hold
from tests.service.oip.calls import Peer, raw_texts, tensors


def test_metadata_names_tensors_labels_and_limits(peer, exported_bundle) -> None:
    metadata = peer.stub.ModelMetadata(oip.ModelMetadataRequest())
    shapes = {t.name: (t.datatype, list(t.shape)) for t in (*metadata.inputs, *metadata.outputs)}
    assert shapes == {
        "text": ("BYTES", [-1, 1]),
        "input_ids": ("INT64", [-1, -1]),
        "logits": ("FP32", [-1, 3]),
        "probabilities": ("FP32", [-1, 3]),
        "labels": ("BYTES", [-1, -1]),
        "attentions": ("FP32", [-1, 2, 5, -1, -1]),
    }
    assert list(metadata.versions) == [exported_bundle.manifest.version]
    assert json.loads(metadata.properties["labels"]) == LABELS
    assert "only if named" in metadata.properties["attentions"]


def test_settings_say_the_same_without_the_axis_of_the_texts(peer) -> None:
    metadata = peer.stub.ModelMetadata(oip.ModelMetadataRequest())
    config = peer.stub.ModelConfig(oip.ModelConfigRequest()).config
    assert config.max_batch_size == int(metadata.properties["max_texts"]) == 64
    assert config.WhichOneof("scheduling_choice") == "dynamic_batching"
    for described, settings in (
        (metadata.inputs, config.input),
        (metadata.outputs, config.output),
    ):
        assert [t.name for t in described] == [t.name for t in settings]
        assert [list(t.shape[1:]) for t in described] == [list(t.dims) for t in settings]


def test_statistics_count_texts_of_both_protocols(peer, caller) -> None:
    def now() -> oip.ModelStatistics:
        (statistics,) = peer.stub.ModelStatistics(oip.ModelStatisticsRequest()).model_stats
        return statistics

    before = now()
    peer.infer(raw_texts("kind", "film"))
    caller.classify("kind")
    peer.refused(raw_texts("kind " * 60))
    after = now()
    assert after.inference_count - before.inference_count == 3
    assert after.execution_count > before.execution_count
    parts = after.inference_stats
    assert parts.success.count - before.inference_stats.success.count == 2
    assert parts.fail.count - before.inference_stats.fail.count == 1
    assert parts.success.ns >= parts.compute_infer.ns > 0
    assert after.last_inference > 0
    assert after.last_inference >= before.last_inference


def test_reflection_lists_the_protocol(server) -> None:
    with grpc.insecure_channel(server.address) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert "inference.GRPCInferenceService" in database.get_services()
        service = DescriptorPool(database).FindServiceByName("inference.GRPCInferenceService")
        assert {"ModelInfer", "ModelStreamInfer"} <= set(service.methods_by_name)


def test_a_stopping_server_is_live_and_not_ready_and_takes_no_work(
    held, held_server, engine
) -> None:
    first = hold(held, engine)
    held_server.begin_stop()
    stub = GRPCInferenceServiceStub(held.channel)
    while stub.ServerReady(oip.ServerReadyRequest(), timeout=TIMEOUT).ready:
        pass
    assert not stub.ModelReady(oip.ModelReadyRequest(name="tiny"), timeout=TIMEOUT).ready
    assert stub.ServerLive(oip.ServerLiveRequest(), timeout=TIMEOUT).live
    assert Peer(stub).refused(raw_texts("kind")).reason == "DRAINING"
    engine.gate.set()
    assert first.result().results


@pytest.fixture
def changeable(start_server, exported_bundle, tmp_path):
    """A server with a folder of two models, which calls may change."""
    for name in ("tiny", "other"):
        shutil.copytree(exported_bundle.path, tmp_path / name / "1")
    server = start_server(None, models=str(tmp_path), allow_admin=True, poll_seconds=0)
    with grpc.insecure_channel(server.address) as channel:
        yield Peer(GRPCInferenceServiceStub(channel))


def test_models_are_unloaded_and_loaded_by_name(changeable) -> None:
    stub = changeable.stub

    def ready(name: str) -> bool:
        return stub.ModelReady(oip.ModelReadyRequest(name=name), timeout=TIMEOUT).ready

    index = stub.RepositoryIndex(oip.RepositoryIndexRequest(), timeout=TIMEOUT)
    assert {(m.name, m.version, m.state) for m in index.models} == {
        ("tiny", "1", "READY"),
        ("other", "1", "READY"),
    }
    stub.RepositoryModelUnload(oip.RepositoryModelUnloadRequest(model_name="other"), timeout=60)
    assert (ready("tiny"), ready("other")) == (True, False)
    stub.RepositoryModelLoad(oip.RepositoryModelLoadRequest(model_name="other"), timeout=60)
    assert ready("other")
    answer = changeable.infer(raw_texts("kind", model_name="other"))
    assert (answer.model_name, answer.model_version) == ("other", "1")
    assert tensors(answer)


def test_a_load_with_settings_of_its_own_is_refused(changeable) -> None:
    request = oip.RepositoryModelLoadRequest(model_name="other")
    request.parameters["config"].string_param = "{}"
    assert "none is known" in changeable.refused(request, "RepositoryModelLoad").message


def test_classify_and_infer_are_counted_in_one_metric(held, held_server) -> None:
    Peer(GRPCInferenceServiceStub(held.channel)).infer(raw_texts("kind"))
    held.stub.Classify(texts("kind"), timeout=TIMEOUT)
    registry = held_server.server.metrics.registry
    for method in ("ModelInfer", "Classify"):
        labels = {"method": method, "code": "OK"}
        assert registry.get_sample_value("heedful_requests_total", labels) == 1
