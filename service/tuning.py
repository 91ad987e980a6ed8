"""Measures a bundle's engines under several settings, through the scheduler that will use them."""

import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from model.bundle import Bundle
from service.config import ServerConfig
from service.metrics import Metrics
from service.scheduler import Scheduler
from service.versions.instances import load_instances
from service.versions.serving import load_engine
from service.versions.warmup import warm_up

IN_FLIGHT = 64
RUN_TOKENS = (64, 128, 256, 512)
# Settings this close to the fastest are as fast; among them the one that answers sooner wins.
AS_FAST = 0.97
# Shares, and median and spread of the logarithm of the number of tokens.
SHORT, MIDDLE, LONG = (24.0, 0.5), (51.0, 0.5), (234.0, 0.7)
MIXES = {
    "mixed": ((0.60, SHORT), (0.25, MIDDLE), (0.15, LONG)),
    "short": ((1.0, SHORT),),
    "middle": ((1.0, MIDDLE),),
    "long": ((1.0, LONG),),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to run the engines."""

    instances: int
    threads: int
    run_tokens: int


@dataclass(slots=True)
class Measured:
    """A setting and what its rounds came to."""

    setting: Setting
    texts_per_second: list[float] = field(default_factory=list)
    median_seconds: list[float] = field(default_factory=list)

    @property
    def speed(self) -> float:
        return statistics.median(self.texts_per_second)

    @property
    def latency(self) -> float:
        """Median seconds of a text with IN_FLIGHT in flight."""
        return statistics.median(self.median_seconds)


def candidates(cpus: int, run_tokens: Sequence[int] = RUN_TOKENS) -> list[Setting]:
    """The settings that fill the processors: one thread each, all in one, and halves."""
    shapes = {(cpus, 1), (1, cpus)} | ({(cpus // 2, 2)} if cpus >= 4 else set())
    return [
        Setting(instances, threads, tokens)
        for instances, threads in sorted(shapes, reverse=True)
        for tokens in run_tokens
    ]


def made_up_lengths(mix: str, count: int, longest: int, seed: int = 0) -> list[int]:
    """Numbers of tokens of one of MIXES, at most longest."""
    rng = np.random.default_rng(seed)
    parts = MIXES[mix]
    chosen = rng.choice(len(parts), size=count, p=[share for share, _ in parts])
    medians = np.array([parts[part][1] for part in chosen])
    lengths = rng.lognormal(np.log(medians[:, 0]), medians[:, 1])
    return [int(length) for length in np.clip(lengths, 3, longest)]


def measure(
    bundle: Bundle, settings: Sequence[Setting], lengths: Sequence[int], rounds: int, seconds: float
) -> Iterator[list[Measured]]:
    """Runs every setting once a round, in turns so that a busy moment hits all of them.

    Yields:
        After each round, everything measured so far.
    """
    found = [Measured(setting) for setting in settings]
    for _ in range(rounds):
        for measured in found:
            rate, median = asyncio.run(_measure(bundle, measured.setting, lengths, seconds))
            measured.texts_per_second.append(rate)
            measured.median_seconds.append(median)
        yield found


def winner(found: Sequence[Measured]) -> Measured:
    """The fastest, or of those as fast the one that answers soonest."""
    fastest = max(measured.speed for measured in found)
    as_fast = [measured for measured in found if measured.speed >= AS_FAST * fastest]
    return min(as_fast, key=lambda measured: measured.latency)


async def _measure(
    bundle: Bundle, setting: Setting, lengths: Sequence[int], seconds: float
) -> tuple[float, float]:
    """Texts/s and median latency of IN_FLIGHT callers of one text each."""
    config = ServerConfig(
        instances=setting.instances, threads=setting.threads, run_tokens=setting.run_tokens
    )
    backends = load_instances(bundle, config, load_engine)
    for backend in dict.fromkeys(backends):
        warm_up(backend, bundle, config.run_tokens)
    scheduler = Scheduler(
        backends,
        metrics=Metrics(),
        max_run_tokens=config.run_tokens,
        pad_token_id=bundle.config.pad_token_id,
    )
    rng = np.random.default_rng(1)
    vocabulary = bundle.config.vocab_size
    texts = [rng.integers(vocabulary, size=length).tolist() for length in lengths]
    latencies: list[float] = []
    start = time.perf_counter()

    async def caller(number: int) -> None:
        while (begin := time.perf_counter()) < start + seconds:
            await scheduler.classify([texts[number % len(texts)]])
            latencies.append(time.perf_counter() - begin)
            number += IN_FLIGHT

    await asyncio.gather(*(caller(number) for number in range(IN_FLIGHT)))
    elapsed = time.perf_counter() - start
    await scheduler.close(10.0)
    return len(latencies) / elapsed, statistics.median(latencies)
