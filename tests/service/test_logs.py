"""A log that nobody reads: no caller waits for it, and what was dropped is said."""

import logging
import os
import sys
import time
from contextlib import suppress

import grpc
import pytest

from heedful.v1 import classifier_pb2 as pb
from heedful.v1.classifier_pb2_grpc import ClassifierStub
from service.logs import LogWriter
from tests.service.calls import TIMEOUT, texts
from tests.service.engines import GoldenEngine
from tests.service.processes import running

FULL_PIPE = 64 << 10
PROCESS = """
import sys
from pathlib import Path
from service.config import ServerConfig
from service.logs import log_beside
from service.process import run
from tests.service import test_logs

log_beside(sys.stderr, "INFO")
config = ServerConfig(port=0, metrics_port=0, instances=1, threads=1, stuck_seconds=0.2)
run(config, Path(sys.argv[1]), lambda bundle, config: getattr(test_logs, sys.argv[2])(bundle))
"""


class BreakingEngine(GoldenEngine):
    """Answers its known example, and anything else with an error of 10 KB in the log."""

    def run(self, rows):
        logits = super().run(rows)
        is_warm_up = len(set(rows.input_ids.flat)) == 1
        if not is_warm_up and self.runs[-1] != [tuple(self._golden.input_ids)]:
            raise RuntimeError("broken " * 1500)
        return logits


class DozingEngine(GoldenEngine):
    """Holds up whoever asks its name, once the server is up, for a second."""

    @property
    def name(self):
        if len(self.runs) > 3:
            time.sleep(1)
        return "dozing"


def test_callers_are_answered_while_nobody_reads_the_log(tiny_bundle) -> None:
    command = [sys.executable, "-c", PROCESS, str(tiny_bundle.path), "BreakingEngine"]
    with running(command) as process:
        process.stop_reading()
        with grpc.insecure_channel(process.address) as channel:
            for _ in range(2 * FULL_PIPE // 10_000):
                call = ClassifierStub(channel).Classify.future(texts("a"), timeout=TIMEOUT)
                assert call.code() is grpc.StatusCode.INTERNAL


def test_an_event_loop_that_stands_still_shows_where(tiny_bundle) -> None:
    command = [sys.executable, "-c", PROCESS, str(tiny_bundle.path), "DozingEngine"]
    with running(command) as process:
        with grpc.insecure_channel(process.address) as channel:
            request = pb.GetModelRequest()
            assert ClassifierStub(channel).GetModel(request, timeout=TIMEOUT).backend == "dozing"
        process.wait_for("Timeout (0:00:00.2")
        process.wait_for("test_logs.py")


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    writer = open(writing, "w")  # noqa: SIM115 - closed below
    with open(reading, "rb") as reader:
        yield reader, writer
    # A thread that writes is let go by its reader's end, and holds the file until then.
    with suppress(OSError):
        writer.close()


def test_lines_come_in_order_and_all_at_a_flush(pipe) -> None:
    reader, writer = pipe
    handler = LogWriter(writer)
    for number in range(500):
        handler.handle(logging.makeLogRecord({"msg": f"line {number}"}))
    handler.flush()
    writer.close()
    assert reader.read().decode().splitlines() == [f"line {number}" for number in range(500)]


def test_what_is_not_read_is_dropped_and_counted(pipe) -> None:
    reader, writer = pipe
    handler = LogWriter(writer, max_lines=3)
    for number in range(100):
        handler.handle(logging.makeLogRecord({"msg": f"{number} " + "x" * FULL_PIPE}))
    lines = [reader.readline().decode()]
    while not lines[-1].endswith("not read\n"):
        lines.append(reader.readline().decode())
    numbers = [int(line.split()[0]) for line in lines[:-1]]
    assert numbers == sorted(numbers)
    assert lines[-1].startswith(f"{100 - len(numbers)} lines of this log were dropped")


def test_a_flush_ends_though_nobody_reads(pipe) -> None:
    handler = LogWriter(pipe[1])
    for _ in range(3):
        handler.handle(logging.makeLogRecord({"msg": "x" * FULL_PIPE}))
    handler.flush()
    assert handler._waiting  # it has given up, and lost nothing by that


def test_a_reader_that_is_gone_is_no_error(pipe) -> None:
    reader, writer = pipe
    reader.close()
    handler = LogWriter(writer)
    for _ in range(2):
        handler.handle(logging.makeLogRecord({"msg": "to nobody"}))
        handler.flush()
        assert not handler._waiting  # the thread lives, and goes on
