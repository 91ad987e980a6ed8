"""The server against its own engine in process, against two rivals, and under overload; one run.

Run: python -m benchmarks.serving [SIZE] [float32 | int8] [SECONDS] [ROUNDS]

Client, server and rivals share the processors, so ratios count. 60 % of the texts have a median of
24 tokens, 25 % of 51, 15 % of 234, cut at 512; random words of one token each.
"""

import itertools
import statistics
import sys
import threading
import time
from contextlib import ExitStack

import numpy as np

from benchmarks.bundles import random_bundle
from benchmarks.serving_overhead import WORDS, loaded, serving, started
from model.bundle import Bundle
from model.packing import pack
from service.config import ServerConfig
from service.quota import usable_cpus
from service.scheduling.waiting import LENGTH_STEP
from service.tuning import made_up_lengths
from service.versions.instances import CPU_RUN_TOKENS, load_instances
from service.versions.serving import load_engine

ROUNDS, NUM_TEXTS = 3, 640
RIVALS = ("padded", "threads")
DEADLINE = 0.5
OVERLOADS = (0.5, 1.0, 2.0, 3.0)
SPECIAL_TOKENS = 2
Figures = dict[str, float]
Servers = dict[str, tuple[int, str]]  # process and address


def made_up_texts(longest: int) -> list[str]:
    rng = np.random.default_rng(0)
    lengths = made_up_lengths("mixed", NUM_TEXTS, longest)
    return [" ".join(rng.choice(WORDS, size=max(1, n - SPECIAL_TOKENS))) for n in lengths]


def mean_tokens(texts: list[str]) -> float:
    return statistics.mean(len(text.split()) + SPECIAL_TOKENS for text in texts)


def runs_of(texts: list[str]) -> list[list[str]]:
    """Texts of like length in runs of the server's size, all known beforehand."""
    runs: list[list[str]] = []
    room = 0
    for text in sorted(texts, key=lambda text: len(text.split()) // LENGTH_STEP):
        tokens = len(text.split()) + SPECIAL_TOKENS
        if tokens > room:
            runs.append([])
            room = CPU_RUN_TOKENS
        runs[-1].append(text)
        room -= tokens
    return runs


class Limit:
    """The same sessions in process, from as many threads, tokenizing included."""

    def __init__(self, bundle: Bundle, texts: list[str]) -> None:
        self._encoder = bundle.text_encoder()
        self._backends = load_instances(bundle, ServerConfig(), load_engine)
        self._runs, self._single = runs_of(texts), [[text] for text in texts]

    def packed(self, seconds: float) -> Figures:
        return self._measure(self._runs, self._backends, seconds)

    def one_by_one(self, seconds: float) -> Figures:
        return self._measure(self._single, self._backends[:1], seconds)

    def _measure(self, runs: list[list[str]], backends: list, seconds: float) -> Figures:
        order = np.random.default_rng(0).permutation(len(runs))  # no engine gets all the long ones
        turns = itertools.cycle([runs[index] for index in order])
        begin, cpu = time.perf_counter(), time.process_time()
        done: list[tuple[int, float]] = []

        def work(backend) -> None:
            while (start := time.perf_counter()) < begin + seconds:
                texts = next(turns)
                backend.run(pack([self._encoder.encode(text).input_ids for text in texts]))
                done.append((len(texts), time.perf_counter() - start))

        threads = [threading.Thread(target=work, args=(backend,)) for backend in backends]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        count, elapsed = sum(size for size, _ in done), time.perf_counter() - begin
        return {
            "per_second": count / elapsed,
            "p50_ms": 1e3 * statistics.median(took for _, took in done),
            "cpu_ms": 1e3 * (time.process_time() - cpu) / count,
        }


def median(rounds: list[Figures], name: str) -> float:
    return statistics.median(figures.get(name, 0.0) for figures in rounds)


def ratio(found: dict[str, list[Figures]], one: str, other: str) -> str:
    """Of texts/s, as the median over the rounds."""
    pairs = zip(found[one], found[other], strict=True)
    value = statistics.median(a["per_second"] / max(b["per_second"], 0.1) for a, b in pairs)
    return f"  {one} / {other} = {value:.2f}"


def show(found: dict[str, list[Figures]], tokens: float) -> None:
    for way, rounds in found.items():
        rate = median(rounds, "per_second")
        tails = "/".join(f"{median(rounds, f'p{share}_ms'):.0f}" for share in (50, 95, 99))
        print(
            f"  {way:<26}{rate:>8,.1f} texts/s{rate * tokens:>9,.0f} tokens/s"
            f"  p50/p95/p99 {tails} ms  {median(rounds, 'cpu_ms'):.2f} CPU s per 1,000"
        )


def throughput(
    servers: Servers, limit: Limit, texts: list[str], seconds: float, rounds: int
) -> None:
    """Figures 1 and 2."""
    ways = {
        "limit, one by one": lambda: limit.one_by_one(seconds),
        "limit, packed": lambda: limit.packed(seconds),
    }

    def served(name: str, in_flight: int, size: int) -> None:
        pid, address = servers[name]
        load = {"address": address, "in_flight": in_flight, "texts": size, "seconds": seconds}
        ways[f"{name}, {in_flight} x {size}"] = lambda: loaded(pid, texts, **load)

    for in_flight, size in itertools.product((1, 8, 64), (1, 16)):
        served("heedful", in_flight, size)
    for name in RIVALS:
        served(name, 64, 1)
    found: dict[str, list[Figures]] = {way: [] for way in ways}
    for _ in range(rounds):  # taken in turns, so that a busy moment hits all
        for way, measure in ways.items():
            found[way].append(measure())
    show(found, mean_tokens(texts))
    for one, other in (
        ("heedful, 64 x 16", "limit, packed"),
        ("heedful, 64 x 1", "limit, packed"),
        ("heedful, 64 x 1", "padded, 64 x 1"),
        ("heedful, 64 x 1", "threads, 64 x 1"),
    ):
        print(ratio(found, one, other))
    gaps = [
        1e3 / a["per_second"] - 1e3 / b["per_second"]
        for a, b in zip(found["heedful, 1 x 1"], found["limit, one by one"], strict=True)
    ]
    print(f"  heedful, 1 x 1: {statistics.median(gaps):+.2f} ms a text over the call in process")


def overload(servers: Servers, texts: list[str], seconds: float) -> None:
    """Figure 3: what comes in time when more is asked than can be done."""
    pid, address = servers["heedful"]
    closed = {"address": address, "in_flight": 64, "seconds": seconds}
    capacity = loaded(pid, texts, **closed)["per_second"]
    print(f"Open loop, {1e3 * DEADLINE:.0f} ms deadlines; capacity {capacity:,.0f} texts/s:")
    for name, (pid, address) in servers.items():
        peak = 0.1
        for times in OVERLOADS:
            load = {"rate": times * capacity, "deadline": DEADLINE, "seconds": 2 * seconds}
            figures = loaded(pid, texts, address=address, **load)
            peak = max(peak, figures["per_second"])
            print(
                f"  {name}, {times:g} x: in time {figures['per_second']:,.0f}/s "
                f"({figures['per_second'] / peak:.0%} of the best so far), "
                f"p99 {figures['p99_ms']:.0f} ms, late {figures['late_per_second']:,.0f}/s, "
                f"refused {figures['refused_per_second']:,.0f}/s in p50 "
                f"{figures['refusal_p50_ms']:.1f} and p95 {figures['refusal_p95_ms']:.1f} ms"
            )
        # Before the next server: a rival goes on computing for callers that have left.
        load = {"in_flight": 256, "deadline": DEADLINE, "seconds": 2 * seconds}
        figures = loaded(pid, texts, address=address, **load)
        print(
            f"  {name}, 256 callers: in time {figures['per_second']:,.0f}/s "
            f"({figures['per_second'] / peak:.0%} of its peak), "
            f"p99 {figures['p99_ms']:.0f} ms"
        )


def main(
    size: str = "minilm", precision: str = "int8", seconds: str = "4", rounds: str = str(ROUNDS)
) -> None:
    with random_bundle(size, int8=precision == "int8") as bundle, ExitStack() as stack:
        rivals = {
            name: stack.enter_context(
                started([sys.executable, "-m", "benchmarks.rivals", name, str(bundle.path)])
            )
            for name in RIVALS
        }
        servers = {"heedful": stack.enter_context(serving(bundle)), **rivals}
        texts = made_up_texts(bundle.manifest.max_tokens)
        print(
            f"{size} {precision}, {usable_cpus()} processors, "
            f"mean {mean_tokens(texts):.0f} tokens, in flight x texts a request, "
            f"median of {rounds} rounds of {seconds} s:"
        )
        throughput(servers, Limit(bundle, texts), texts, float(seconds), int(rounds))
        overload(servers, texts, float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
