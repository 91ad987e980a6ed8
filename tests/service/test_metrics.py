"""What Prometheus scrapes from a real server over HTTP."""

import socket
import urllib.request

import grpc
import pytest
from prometheus_client.parser import text_string_to_metric_families

from heedful.v1 import classifier_pb2 as pb
from heedful.v1.classifier_pb2_grpc import ClassifierStub
from model.errors import SetupError
from service.metrics import SECONDS, Metrics
from service.scraping import MetricsServer
from tests.service.calls import Caller, texts

LABEL_NAMES = {
    *("method", "code", "reason", "stage", "kind", "le"),
    *("model", "version", "backend", "device", "precision", "outcome"),
    *("generation", "implementation"),
    *("major", "minor", "patchlevel"),
}


@pytest.fixture(scope="module")
def scrape(start_server, exported_bundle):
    """A server that has seen good and bad requests, and its page."""
    server = start_server(exported_bundle, backend="onnx")
    with grpc.insecure_channel(server.address) as channel:
        caller = Caller(ClassifierStub(channel), channel)
        caller.classify("A kind film", "Two hours of secret noise")
        caller.refused(texts("secret", target_label="my secret label"))
        caller.refused(texts("secret", model="my-secret-model"))
        call = channel.unary_unary("/heedful.v1.Classifier/MySecretMethod")
        with pytest.raises(grpc.RpcError):
            call(b"", timeout=10)
        caller.stub.GetModel(pb.GetModelRequest(), timeout=10)
    with urllib.request.urlopen(server.server.metrics_url, timeout=10) as page:  # noqa: S310
        return page.read().decode()


@pytest.fixture(scope="module")
def samples(scrape):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(scrape)
        for sample in family.samples
    }


def test_requests_are_counted_by_method_and_code(samples) -> None:
    def count(method: str, code: str) -> float:
        return samples["heedful_requests_total", ("code", code), ("method", method)]

    assert count("Classify", "OK") == 1
    assert count("Classify", "INVALID_ARGUMENT") == 1
    assert count("Classify", "NOT_FOUND") == 1
    assert count("GetModel", "OK") == 1


def test_refusals_are_counted_by_reason(samples) -> None:
    assert samples["heedful_refusals_total", ("reason", "INVALID_INPUT")] == 1
    assert samples["heedful_refusals_total", ("reason", "NOT_SERVED")] == 1


@pytest.mark.parametrize("phase", ["queue", "tokenize", "compute", "serialize"])
def test_each_phase_is_timed(samples, phase) -> None:
    assert samples[f"heedful_{phase}_seconds_count",] >= 1
    assert samples[f"heedful_{phase}_seconds_sum",] > 0


def test_times_are_told_apart_from_100_microseconds_on() -> None:
    assert SECONDS[0] == 0.0001
    assert SECONDS[-1] == 30.0


def test_texts_and_tokens_of_runs_are_counted(samples) -> None:
    assert samples["heedful_run_texts_sum",] == 2
    assert samples["heedful_run_tokens_sum",] == samples["heedful_tokens_total", ("kind", "real")]
    assert samples["heedful_tokens_total", ("kind", "padding")] >= 0


def test_the_queue_is_read_when_scraped(samples) -> None:
    for gauge in (
        *("queue_texts", "queue_tokens", "queue_age_seconds", "queue_predicted_seconds"),
        "running_texts",
    ):
        assert samples[f"heedful_{gauge}",] == 0


def test_the_model_is_named_with_what_runs_it(samples, exported_bundle) -> None:
    labels = {
        "model": "tiny",
        "version": exported_bundle.manifest.version,
        "backend": "onnxruntime",
        "device": "cpu",
        "precision": "float32",
    }
    assert samples["heedful_model_info", *sorted(labels.items())] == 1
    assert samples["heedful_ready",] == 1


def test_the_process_is_described(samples) -> None:
    assert samples["process_resident_memory_bytes",] > 0


def test_nothing_a_caller_sent_becomes_a_label_or_a_metric(scrape, samples) -> None:
    assert "secret" not in scrape.lower()
    assert {name for key in samples for name, _ in key[1:]} <= LABEL_NAMES


def test_a_taken_port_is_said_plainly() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SetupError, match="--metrics-port"):
            MetricsServer(Metrics(), "127.0.0.1", port)
