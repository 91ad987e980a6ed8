"""Served texts/s, over gRPC from another process, beside the same engine called in process.

Run: python -m benchmarks.serving_overhead [PRESET]
"""

import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np

from benchmarks.bundles import random_bundle
from benchmarks.lengths import long_tailed
from model.bundle import Bundle
from model.packing import pack
from service.config import ServerConfig
from service.quota import usable_cpus
from service.scheduling.waiting import LENGTH_STEP
from service.server import load_engine
from service.versions.instances import CPU_RUN_TOKENS

ROUNDS, SECONDS, NUM_TEXTS = 5, 3.0, 400
WORDS = ["words", "of", "no", "meaning"]
TICKS = os.sysconf("SC_CLK_TCK")


def made_up_texts() -> list[str]:
    """Texts whose numbers of tokens are long-tailed: mean 39, at most 180."""
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(WORDS, size=length)) for length in long_tailed(NUM_TEXTS)]


def serving(bundle: Bundle, *options: str) -> AbstractContextManager[tuple[int, str]]:
    """A heedful server's process and its address."""
    heedful = Path(sys.executable).with_name("heedful")
    return started([heedful, "serve", bundle.path, "--port", "0", "--metrics-port", "0", *options])


@contextmanager
def started(command: Sequence[str | Path]) -> Iterator[tuple[int, str]]:
    """A server's process and its address, once it is ready."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    address = ""
    for line in process.stderr:
        if found := re.search(r"listening on (\S+)", line):
            address = found[1]
        if "ready after" in line:
            break
    try:
        yield process.pid, address
    finally:
        process.terminate()
        process.communicate()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class InProcess:
    """The same engine, tokenizing included, without a server around it."""

    def __init__(self, bundle: Bundle, texts: list[str]) -> None:
        self._encoder, self._texts = bundle.text_encoder(), texts
        self._backend = load_engine(bundle, ServerConfig())  # as the server loads it

    def one_by_one(self) -> dict[str, float]:
        """Each text when the one before is answered, as one caller would."""
        return self._measure([[text] for text in self._texts])

    def packed(self) -> dict[str, float]:
        """Texts of like length in runs of the server's size, all known beforehand."""
        by_length = sorted(self._texts, key=lambda text: len(text.split()) // LENGTH_STEP)
        runs: list[list[str]] = [[]]
        for text in by_length:
            tokens = sum(len(other.split()) + 2 for other in [*runs[-1], text])
            if tokens > CPU_RUN_TOKENS and runs[-1]:
                runs.append([])
            runs[-1].append(text)
        return self._measure(runs)

    def _measure(self, runs: list[list[str]]) -> dict[str, float]:
        num_texts, start, cpu = 0, time.perf_counter(), time.process_time()
        while (elapsed := time.perf_counter() - start) < SECONDS:
            for texts in runs:
                ids = [self._encoder.encode(text).input_ids for text in texts]
                self._backend.run(pack(ids))
                num_texts += len(texts)
        cpu = time.process_time() - cpu
        return {"per_second": num_texts / elapsed, "cpu_ms": cpu / num_texts * 1e3}


def served(pid: int, address: str, in_flight: int, texts: list[str]) -> dict[str, float]:
    """What a client process sees, and the CPU time of the server for each text."""
    return loaded(pid, texts, address=address, in_flight=in_flight, seconds=SECONDS)


def loaded(pid: int, lines: list[str], /, **load: str | float) -> dict[str, float]:
    """The same for any load of serving_load.py."""
    cpu = cpu_seconds(pid)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.serving_load", json.dumps(load)],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    figures["cpu_ms"] = (cpu_seconds(pid) - cpu) / max(1.0, figures["answers"]) * 1e3
    return figures


def main(preset: str = "base") -> None:
    texts = made_up_texts()
    with random_bundle(preset) as bundle, serving(bundle) as (pid, address):
        alone = InProcess(bundle, texts)
        ways = {
            "in process, one by one": alone.one_by_one,
            "served, 1 in flight": lambda: served(pid, address, 1, texts),
            "in process, packed": alone.packed,
            "served, 32 in flight": lambda: served(pid, address, 32, texts),
        }
        found: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
        for _ in range(ROUNDS):  # taken in turns, so that a busy moment hits all
            for way, measure in ways.items():
                found[way].append(measure())
    print(f"Texts/s of {preset}, texts of 39 tokens on average, {usable_cpus()} threads,")
    print(f"median of {ROUNDS} rounds:")
    for way, figures in found.items():
        rate, cpu = (statistics.median(f[key] for f in figures) for key in ("per_second", "cpu_ms"))
        print(f"  {way:24} {rate:8,.0f} texts/s  {cpu:7.2f} ms of CPU a text")
    for flying, limit in ((1, "in process, one by one"), (32, "in process, packed")):
        pairs = zip(found[f"served, {flying} in flight"], found[limit], strict=True)
        ratio = statistics.median(a["per_second"] / b["per_second"] for a, b in pairs)
        print(f"  {flying} in flight / {limit} = {ratio:.2f}")
    pairs = zip(found["served, 1 in flight"], found["in process, one by one"], strict=True)
    gap = statistics.median(1e3 / a["per_second"] - 1e3 / b["per_second"] for a, b in pairs)
    print(
        f"  1 in flight: an answer takes {gap:.2f} ms longer than in process, the client included"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
