"""`heedful serve` as a process: how it starts, stops and fails to start."""

import shutil
import signal
import socket
import subprocess
import time
from contextlib import ExitStack

import grpc
import pytest

from heedful.v1.classifier_pb2_grpc import ClassifierStub
from tests.service.calls import TIMEOUT, refusal_of, texts
from tests.service.processes import FREE_PORTS, HEEDFUL, ServerProcess, serving

LONG_TEXT = "two hours of noise " * 6
NUM_CALLERS, TEXTS_EACH = 48, 4
# Holds all of that in the queue for some seconds after the first has come.
FULL_LOAD = ["--max-wait-ms", "4000", "--run-tokens", "20000"]
LONG_TIMEOUT = 120


def fails(*arguments: object) -> str:
    """What a server that cannot start says; it must be one line and exit code 1."""
    command = [HEEDFUL, "serve", "--log-level", "error", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_under_load_finishes_what_was_accepted_and_exits_with_0(
    exported_bundle, number
) -> None:
    with serving(exported_bundle.path) as process:
        with grpc.insecure_channel(process.address) as channel:
            stub = ClassifierStub(channel)
            request = texts(*[LONG_TEXT] * 32)
            calls = [stub.Classify.future(request, timeout=TIMEOUT) for _ in range(20)]
            assert calls[0].result().results  # the rest is in the server by now, or on its way
            process.send(number)
            outcomes = {call.code() for call in calls}
            late = stub.Classify.future(request, timeout=TIMEOUT)
            assert late.code() is grpc.StatusCode.UNAVAILABLE
        assert process.ended() == 0
    # No CANCELLED: a caller must know that asking another server is safe.
    assert outcomes <= {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
    assert "all that was accepted is answered" in process.log
    assert "Traceback" not in process.log
    assert "noise" not in process.log


def test_at_full_load_all_that_was_accepted_is_answered_and_new_calls_are_refused(
    exported_bundle,
) -> None:
    with serving(exported_bundle.path, *FULL_LOAD) as process, ExitStack() as own:
        alone = [("grpc.use_local_subchannel_pool", 1)]  # a connection for each channel
        to = process.address
        channels = [own.enter_context(grpc.insecure_channel(to, alone)) for _ in range(8)]
        stubs = [ClassifierStub(channel) for channel in channels]
        request = texts(*[LONG_TEXT] * TEXTS_EACH)
        calls = [
            stubs[number % len(stubs)].Classify.future(request, timeout=LONG_TIMEOUT)
            for number in range(NUM_CALLERS)
        ]
        _wait_until_accepted(process, calls)
        process.send(signal.SIGTERM)
        process.wait_for("finishing what was accepted")
        refused = _first_refusal(stubs[0])
        had_more_to_do = not all(call.done() for call in calls)
        codes = [call.code() for call in calls]
        assert process.ended(LONG_TIMEOUT) == 0
    assert codes == [grpc.StatusCode.OK] * NUM_CALLERS
    assert all(len(call.result().results) == TEXTS_EACH for call in calls)
    assert refused.code() is grpc.StatusCode.UNAVAILABLE
    if had_more_to_do:
        assert refusal_of(refused).reason == "DRAINING"
    assert "all that was accepted is answered" in process.log


def _wait_until_accepted(process: ServerProcess, calls: list[grpc.Future]) -> None:
    """Waits until every call is in the server's queue, or further."""
    until = time.monotonic() + LONG_TIMEOUT
    while time.monotonic() < until:
        answered = sum(call.done() for call in calls)
        values = process.metrics()
        inside = values["heedful_queue_texts"] + values["heedful_running_texts"]
        if inside + answered * TEXTS_EACH >= len(calls) * TEXTS_EACH:
            return
    raise AssertionError("the server does not accept all calls")


def _first_refusal(stub: ClassifierStub) -> grpc.RpcError:
    """Calls until a call is refused; those before it came early enough, and are answered."""
    while True:
        try:
            assert len(stub.Classify(texts("kind"), timeout=LONG_TIMEOUT).results) == 1
        except grpc.RpcError as error:
            return error


def test_the_log_says_what_runs_where(exported_bundle) -> None:
    with serving(exported_bundle.path, "--log-level", "debug") as process:
        with grpc.insecure_channel(process.address) as channel:
            ClassifierStub(channel).Classify(texts("a secret wish"), timeout=TIMEOUT)
        process.send(signal.SIGTERM)
        process.ended()
    log = process.log
    assert "engine onnxruntime on cpu, threads 1" in log
    assert f"model tiny, version {exported_bundle.manifest.version}" in log
    assert "metrics on http://127.0.0.1:" in log
    assert "secret" not in log


def test_environment_variables_are_options(exported_bundle, monkeypatch) -> None:
    monkeypatch.setenv("HEEDFUL_SERVE_MAX_INPUTS", "0")
    assert "max_inputs must be positive, got 0" in fails(exported_bundle.path, *FREE_PORTS)


@pytest.mark.parametrize("option", ["--port", "--metrics-port"])
def test_a_port_in_use_is_said_plainly(exported_bundle, option) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = fails(exported_bundle.path, *FREE_PORTS, option, port)
    assert f"127.0.0.1:{port}" in said
    assert option in said


def test_two_servers_never_share_a_port(exported_bundle) -> None:
    with serving(exported_bundle.path) as process:
        port = process.address.rpartition(":")[2]
        assert "--port" in fails(exported_bundle.path, *FREE_PORTS, "--port", port)


def test_a_folder_that_is_no_bundle_is_said_plainly(tmp_path) -> None:
    assert "has no bundle.json" in fails(tmp_path)


def test_a_bundle_without_graphs_says_how_to_make_them(tiny_bundle) -> None:
    assert "heedful export" in fails(tiny_bundle.path, *FREE_PORTS)


def test_a_missing_and_a_changed_file_are_named(exported_bundle, tmp_path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(exported_bundle.path, copy)
    with (copy / "tokenizer.json").open("a") as file:
        file.write(" ")
    assert "tokenizer.json was changed" in fails(copy)
    (copy / "tokenizer.json").unlink()
    assert "tokenizer.json is missing" in fails(copy)
