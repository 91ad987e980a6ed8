"""What a server process takes: not more for its past than for what it does now."""

import asyncio
import ctypes
import gc
import itertools
import os
import random
import re
import sys
import time
from pathlib import Path

import grpc
import pytest
import torch

from export.bundle import export_bundle
from model.bundle import Bundle
from model.config import EncoderConfig
from model.encoder import EncoderClassifier
from model.weights import write_bundle
from service.memory import ARENAS_PER_CPU
from service.quota import usable_cpus
from tests.conftest import LABELS
from tests.service.calls import texts
from tests.service.engines import GoldenEngine
from tests.service.processes import serving

LONGEST, HEADS = 512, 16
# The attention weights of the longest text in one layer, float32; a run has some of that size.
SQUARES_BYTES = HEADS * LONGEST**2 * 4
HEAP_BYTES = 64 << 20  # glibc reserves so much for each heap but the first
NUM_PIECES, PIECE_BYTES = 1024, 64 << 10
CLASSIFY = "/heedful.v1.Classifier/Classify"
AT_ONCE = 64
TIMEOUT = 60.0
# One of so many callers leaves early, or tries.
IMPATIENT = 8
# How much a process may grow once it has seen every length: two engines' longest runs may fall
# together late, and allocators keep some of what is freed.
GROWTH_BYTES = 4 * SQUARES_BYTES

linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from Linux's /proc")


@pytest.fixture(scope="module")
def long_bundle(tmp_path_factory, tiny_tokenizer) -> Bundle:
    """A thin model for long texts, whose runs take far more memory than its weights."""
    torch.manual_seed(5)
    config = EncoderConfig(
        vocab_size=tiny_tokenizer.get_vocab_size(),
        num_labels=len(LABELS),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=HEADS,
        intermediate_size=37,
        max_position_embeddings=LONGEST,
    )
    folder, encoder = tmp_path_factory.mktemp("long"), EncoderClassifier(config).eval()
    write_bundle(folder / "long", encoder, tiny_tokenizer, name="long", labels=LABELS)
    return export_bundle(folder / "long", folder / "long-onnx")


@linux
def test_threads_of_a_server_share_heaps(exported_bundle) -> None:
    with serving(exported_bundle.path) as process:
        assert num_heaps(process.pid) <= ARENAS_PER_CPU * usable_cpus()


class MessyEngine(GoldenEngine):
    """Frees what it took at once, all but the last piece, as a network does that keeps something.

    The C library does not give back what lies below that piece unless it is told to.
    """

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        library = ctypes.CDLL(None)
        library.malloc.restype = ctypes.c_void_p
        pieces = [library.malloc(ctypes.c_size_t(PIECE_BYTES)) for _ in range(NUM_PIECES)]
        for piece in pieces:
            ctypes.memset(piece, 1, PIECE_BYTES)
        for piece in pieces[:-1]:
            library.free(ctypes.c_void_p(piece))


@linux
def test_a_loaded_model_keeps_no_memory_that_it_has_freed(start_server, tiny_bundle) -> None:
    before = memory_of(os.getpid())[0]
    server = start_server(tiny_bundle, load=lambda bundle, config: MessyEngine(bundle))
    grown = memory_of(os.getpid())[0] - before
    server.stop()
    assert grown < NUM_PIECES * PIECE_BYTES / 2


def test_garbage_collections_pass_over_what_is_served(start_server, tiny_bundle) -> None:
    server = start_server(tiny_bundle, load=lambda bundle, config: GoldenEngine(bundle))
    served = next(iter(server.server.models))
    # All that is found by a collection can be listed, and what it passes over cannot.
    assert not any(found is served.servicer for found in gc.get_objects())
    server.stop()
    assert any(found is served.servicer for found in gc.get_objects())


@linux
@pytest.mark.soak
def test_memory_is_flat_over_requests_of_random_lengths(long_bundle) -> None:
    count = int(os.environ.get("HEEDFUL_SOAK_REQUESTS", "20000"))
    with serving(long_bundle.path, "--instances", str(usable_cpus())) as process:
        seen = [memory_of(process.pid)[0]]
        for seed in range(4):
            asyncio.run(ask_for_all_lengths(process.address, count // 4, seed))
            seen.append(memory_of(process.pid)[0])
        peak = memory_of(process.pid)[1]
    at = ", ".join(f"{resident / 2**20:.0f}" for resident in seen)
    print(f"{count:,} requests: {at} MiB after each quarter, at most {peak / 2**20:.0f}")
    assert max(seen[2:]) - seen[1] < GROWTH_BYTES, at


async def ask_for_all_lengths(address: str, count: int, seed: int) -> None:
    """Asks with texts of 1 to LONGEST tokens, each order of magnitude as often as the others."""
    choose, numbers = random.Random(seed), iter(range(count))  # noqa: S311 - not secret
    lengths = [round(LONGEST ** choose.random()) for _ in range(256)]
    requests = [texts("noise " * length).SerializeToString() for length in lengths]

    async def caller(call) -> None:
        for number in numbers:
            leaves = number % IMPATIENT == 0
            timeout = choose.uniform(0.001, 0.1) if leaves else TIMEOUT
            try:
                await call(choose.choice(requests), timeout=timeout)
            except grpc.aio.AioRpcError as error:
                if not leaves or error.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise

    pauses: list[float] = []
    beating = asyncio.create_task(beat(pauses))
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            call = channel.unary_unary(CLASSIFY)
            await asyncio.gather(*(caller(call) for _ in range(AT_ONCE)))
    finally:
        beating.cancel()
        longest = max(pauses, default=0.0)
        print(f"round {seed}: the callers' own loop stood still for at most {longest:.1f} s")


async def beat(pauses: list[float], seconds: float = 0.1) -> None:
    """Notes how late a loop is: one that stood still, with its machine or not, blames nobody."""
    while True:
        start = time.monotonic()
        await asyncio.sleep(seconds)
        pauses.append(time.monotonic() - start - seconds)


def memory_of(pid: int) -> tuple[int, int]:
    """Bytes in memory, now and at most."""
    status = Path(f"/proc/{pid}/status").read_text()
    now, peak = (re.search(rf"{key}:\s+(\d+) kB", status) for key in ("VmRSS", "VmHWM"))
    return int(now[1]) << 10, int(peak[1]) << 10


def num_heaps(pid: int) -> int:
    """Reservations that look like heaps of glibc: used in front, and the rest not yet."""
    lines = [line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    found = 0
    for used, rest in itertools.pairwise(lines):
        start, end = used[0].split("-")[0], rest[0].split("-")[1]
        is_heap = (used[1], rest[1]) == ("rw-p", "---p") and len(used) == len(rest) == 5
        found += is_heap and int(end, 16) - int(start, 16) == HEAP_BYTES
    return found
