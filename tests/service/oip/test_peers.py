"""Other people's clients and tools against a real server, each in a process and environment of its
own: two sets of stubs of package inference cannot live in one."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heedful.v1 import classifier_pb2 as pb
from tests.conftest import LABELS, RunningServer

ROOT = Path(__file__).parents[3]
PEERS = ROOT / "build" / "peers"
SCRIPTS = ROOT / "tests" / "peers"
SENTENCES = ["A film that warms the heart", "房间很干净"]
# The protocol is the same whatever the engine; once is enough.
ONCE = pytest.mark.parametrize("server", ["onnx"], indirect=True)
NO_PEER = "is not set up here: run `make peers`"


def run(command: list[str | Path], **settings: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=60, **settings
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def ask(peer: str, address: str) -> dict[str, Any]:
    """What a peer's script saw."""
    python = PEERS / peer / "bin" / "python"
    if not (PEERS / peer / ".installed").exists():
        pytest.skip(f"{peer} {NO_PEER}")
    done = run([python, SCRIPTS / f"ask_{peer}.py", address])
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def logits_of(caller, inputs: list[pb.Input]) -> np.ndarray:
    results = caller.stub.Classify(pb.ClassifyRequest(inputs=inputs)).results
    return np.array([[s.logit for s in sorted(r.labels, key=lambda s: s.index)] for r in results])


def check_inference(seen: dict[str, Any], caller) -> None:
    """What every client must see: the answers that Classify gives."""
    logits = logits_of(caller, [pb.Input(text=text) for text in SENTENCES])
    assert (seen["live"], seen["ready"], seen["model_ready"]) == (True, True, True)
    assert seen["id"] == "seven"
    assert seen["version"] == caller.classify("kind").version
    np.testing.assert_allclose(seen["plain"]["logits"], logits, atol=1e-5)
    np.testing.assert_allclose(np.sum(seen["plain"]["probabilities"], axis=1), 1, atol=1e-5)
    assert [row[0] for row in seen["plain"]["labels"]] == [LABELS[i] for i in logits.argmax(1)]
    ids = [pb.Input(token_ids=pb.TokenIds(ids=row)) for row in ([2, 9, 3], [2, 8, 3])]
    np.testing.assert_allclose(seen["by_ids"]["logits"], logits_of(caller, ids), atol=1e-5)
    attentions = np.array(seen["attentions"]["attentions"])
    assert attentions.shape == (1, 2, 5, 3, 3)
    np.testing.assert_allclose(attentions.sum(-1), 1, atol=1e-5)
    for values, named in zip(logits, seen["classified"]["probabilities"], strict=True):
        best = np.argsort(-values)[:2]
        parts = [word.split(":") for word in named]
        assert [(int(index), label) for _, index, label in parts] == [
            (index, LABELS[index]) for index in best
        ]


@ONCE
def test_tritonclient_works_unchanged(server, caller) -> None:
    seen = ask("tritonclient", server.address)
    check_inference(seen, caller)
    np.testing.assert_allclose(seen["by_row"]["logits"], seen["plain"]["logits"], atol=1e-5)
    assert seen["order"] == ["logits", "probabilities", "labels"]
    assert seen["attended_labels"]["labels"][0][0] in LABELS
    assert seen["other_ready"] is False
    assert len(seen["truncated"]["labels"][0]) == 3
    assert json.loads(seen["lost_tokens"])[0] > 0


@ONCE
def test_tritonclient_streams(server) -> None:
    seen = ask("tritonclient", server.address)
    first, wrong, third = seen["streamed"]
    assert (first[0], third[0]) == ("0", "2")
    assert "outside 0 to" in wrong[1]
    np.testing.assert_allclose([first[2][0], third[2][0]], seen["by_ids"]["logits"], atol=1e-5)


@ONCE
def test_tritonclients_stream_is_answered_in_its_order(server) -> None:
    seen = ask("tritonclient", server.address)
    assert seen["bulk"] == [[str(number), 2 + number % 7] for number in range(100)]


@ONCE
def test_tritonclient_sees_what_is_served(server) -> None:
    seen = ask("tritonclient", server.address)
    assert seen["server"]["name"] == "heedful"
    metadata, config = seen["metadata"], seen["config"]["config"]
    assert {tensor["name"]: tensor["shape"] for tensor in metadata["outputs"]} == {
        "logits": ["-1", "3"],
        "probabilities": ["-1", "3"],
        "labels": ["-1", "-1"],
        "attentions": ["-1", "2", "5", "-1", "-1"],
    }
    assert config["max_batch_size"] == 64
    assert [model["state"] for model in seen["index"]["models"]] == ["READY"]
    statistics = seen["statistics"]["model_stats"][0]
    assert int(statistics["inference_count"]) >= 8
    assert int(statistics["inference_stats"]["compute_infer"]["ns"]) > 0
    assert seen["statuses"] == {
        "unknown model": "StatusCode.NOT_FOUND",
        "unknown version": "StatusCode.NOT_FOUND",
        "unknown output": "StatusCode.INVALID_ARGUMENT",
        "id over the vocabulary": "StatusCode.INVALID_ARGUMENT",
        "timeout of a microsecond": "StatusCode.DEADLINE_EXCEEDED",
        "priority": "StatusCode.INVALID_ARGUMENT",
        "unload": "StatusCode.FAILED_PRECONDITION",
    }


@ONCE
def test_kserves_client_works_unchanged(server, caller) -> None:
    seen = ask("kserve", server.address)
    check_inference(seen, caller)
    np.testing.assert_allclose(seen["typed"]["logits"], seen["plain"]["logits"], atol=1e-5)
    assert seen["typed"]["labels"] == seen["plain"]["labels"]
    assert seen["statuses"] == {
        "unknown model": "NOT_FOUND",
        "id over the vocabulary": "INVALID_ARGUMENT",
    }


@pytest.fixture(params=["a bundle", "a folder of models"])
def described(request, start_server, exported_bundle, tmp_path) -> tuple[RunningServer, bool]:
    """A server, and whether its versions are numbers."""
    if request.param == "a bundle":
        return start_server(exported_bundle), False
    shutil.copytree(exported_bundle.path, tmp_path / "models" / "tiny" / "1")
    return start_server(None, models=str(tmp_path / "models")), True


def test_perf_analyzer_measures_a_server(described, tmp_path) -> None:
    server, has_statistics = described
    done = run_perf_analyzer(tmp_path, server.address, "--concurrency-range", "2", "-b", "2")
    assert "Concurrency: 2, throughput:" in done.stdout
    assert ("Inference count:" in done.stdout) == has_statistics


@ONCE
def test_perf_analyzer_measures_streams(server, tmp_path) -> None:
    done = run_perf_analyzer(
        tmp_path, server.address, "--streaming", "--async", "--concurrency-range", "8", "-b", "2"
    )
    assert "Concurrency: 8, throughput:" in done.stdout
    value = server.server.metrics.registry.get_sample_value
    assert value("heedful_requests_total", {"method": "ModelStreamInfer", "code": "OK"}) > 20


def run_perf_analyzer(
    folder: Path, address: str, *options: str
) -> subprocess.CompletedProcess[str]:
    """Two seconds of two texts a request."""
    home = PEERS / "perf_analyzer"
    libraries = [sorted(home.rglob(f"{name}.so*")) for name in ("libb64", "libcudart")]
    if not all(libraries):
        pytest.skip(f"perf_analyzer {NO_PEER}")
    data = folder / "data.json"
    data.write_text(json.dumps({"data": [{"text": ["A kind film"]}, {"text": ["bad"]}]}))
    # Three windows however unstable: this is about whether it works.
    command = [home / "bin" / "perf_analyzer", "-m", "tiny", "-i", "grpc", "-u", address]
    command += ["--input-data", data, "-p", "600", "-r", "3", "-s", "999", *options]
    path = os.pathsep.join(str(found[0].parent) for found in libraries)
    return run(command, env={**os.environ, "LD_LIBRARY_PATH": path})


def test_our_client_and_tritonclient_live_in_one_process() -> None:
    python = PEERS / "tritonclient" / "bin" / "python"
    if not (PEERS / "tritonclient" / ".installed").exists():
        pytest.skip(f"tritonclient {NO_PEER}")
    path = {**os.environ, "PYTHONPATH": str(ROOT / "proto")}
    run([python, "-c", "import heedful, tritonclient.grpc"], env=path)
