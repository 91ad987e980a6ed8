"""Servers as processes, and what a client process sees of them."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from model.bundle import Bundle

TICKS = os.sysconf("SC_CLK_TCK")
Figures = dict[str, float]


@dataclass(frozen=True)
class Address:
    """Where a server is: its process and its port."""

    pid: int
    address: str


def serving(bundle: Bundle, *options: str) -> AbstractContextManager[Address]:
    """heedful, as its user starts it."""
    heedful = Path(sys.executable).with_name("heedful")
    return started([heedful, "serve", bundle.path, "--port", "0", "--metrics-port", "0", *options])


def module(name: str, *arguments: str) -> AbstractContextManager[Address]:
    """Another server of this folder, which logs as heedful does."""
    return started([sys.executable, "-m", f"benchmarks.serving.{name}", *arguments])


@contextmanager
def started(command: Sequence[str | Path]) -> Iterator[Address]:
    """A server, once it is ready, for as long as it is needed."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    address, lines = "", []
    for line in process.stderr:
        lines.append(line)
        if found := re.search(r"listening on (\S+)", line):
            address = found[1]
        if "ready after" in line:
            break
    else:
        raise RuntimeError(f"{command} did not start:\n{''.join(lines)}")
    try:
        yield Address(process.pid, address)
    finally:
        process.terminate()
        process.communicate()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def loaded(server: Address, lines: list[str], /, **load: float) -> Figures:
    """What came of a load of load.py, and the CPU time of the server for each answered text."""
    cpu = cpu_seconds(server.pid)
    asked = json.dumps({"address": server.address, **load})
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.serving.load", asked],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
    )
    figures: Figures = json.loads(done.stdout)
    figures["cpu_ms"] = (cpu_seconds(server.pid) - cpu) / max(1.0, figures["answers"]) * 1e3
    return figures
