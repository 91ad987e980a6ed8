"""Real tokens/s of one ONNX session: packed rows against padded ones, and what length costs.

The second part measures ATTENTION_PARITY_LENGTH of model/packing.py. One thread, timed in seconds
of its processor, so that other programs disturb less.

Run: python -m benchmarks.packing
"""

import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.bundles import VOCAB_SIZE, random_bundle
from benchmarks.lengths import imdb, long_tailed
from benchmarks.training import padded
from model.packing import ATTENTION_PARITY_LENGTH, PackedRows, pack
from service.backends import Backend
from service.backends.loading import load_backend

PRESET, RUNS = "small", 5
RUN_TOKENS = 256  # as the server's default
ROW_LENGTHS = (16, 32, 64, 128, 192, 256, 384, 512)
SLOTS = 1024  # tokens of a run in the second part

Texts = list[list[int]]


def texts_of(lengths: Sequence[int]) -> Texts:
    rng = np.random.default_rng(0)
    return [rng.integers(4, VOCAB_SIZE, size=length).tolist() for length in lengths]


def groups(texts: Texts, size: int) -> list[Texts]:
    return [texts[at : at + size] for at in range(0, len(texts), size)]


def within(texts: Texts, max_tokens: int) -> list[Texts]:
    """Texts in arrival order, as many a run as fit."""
    runs: list[Texts] = []
    room = 0
    for text in texts:
        if len(text) > room:
            runs.append([])
            room = max_tokens
        runs[-1].append(text)
        room -= len(text)
    return runs


WAYS: dict[str, Callable[[Texts], list[PackedRows]]] = {
    "padded, batches of 8": lambda texts: [padded(group) for group in groups(texts, 8)],
    "one by one": lambda texts: [pack([text]) for text in texts],
    "packed, 64 texts": lambda texts: [pack(group) for group in groups(texts, 64)],
    f"packed, {RUN_TOKENS} tokens": lambda texts: [
        pack(group) for group in within(texts, RUN_TOKENS)
    ],
}


def seconds(backend: Backend, runs: Sequence[PackedRows]) -> float:
    start = time.process_time()
    for rows in runs:
        backend.run(rows)
    return time.process_time() - start


def medians(backend: Backend, ways: dict[str, list[PackedRows]]) -> dict[str, float]:
    """Seconds of each way, taken in turns so that a busy moment hits all of them."""
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(RUNS):
        for way, runs in ways.items():
            taken[way].append(seconds(backend, runs))
    return {way: statistics.median(values) for way, values in taken.items()}


def compare(backend: Backend, name: str, lengths: Sequence[int]) -> None:
    ways = {way: make(texts_of(lengths)) for way, make in WAYS.items()}
    taken = medians(backend, ways)
    tokens = sum(lengths)
    print(f"{name}: {len(lengths)} texts, mean {tokens / len(lengths):.0f}, max {max(lengths)}")
    for way, runs in ways.items():
        padding = 1 - tokens / sum(rows.num_slots for rows in runs)
        print(f"  {way:<21}{tokens / taken[way]:>9,.0f} tokens/s {padding:>6.1%} padding")
    *others, packed = ways
    for way in others:
        print(f"  {packed} / {way} = {taken[way] / taken[packed]:.2f}")


def parity_length(backend: Backend) -> float:
    """The row length at which attention costs as much per token as all the rest.

    Least squares over seconds per token = rest * (1 + row_length / parity).
    """
    ways = {
        str(length): [pack(texts_of([length] * (SLOTS // length)), max_row_length=length)]
        for length in ROW_LENGTHS
    }
    taken = medians(backend, ways)
    cost = [taken[way] / runs[0].num_slots for way, runs in ways.items()]
    slope, rest = np.polyfit(ROW_LENGTHS, cost, 1)
    shown = ", ".join(
        f"{length}: {1e6 * value:.1f}" for length, value in zip(ROW_LENGTHS, cost, strict=True)
    )
    print(f"  microseconds a token by row length: {shown}")
    return float(rest / slope)


def main() -> None:
    print(f"One ONNX session, one thread, {PRESET}, median of {RUNS} runs")
    with random_bundle(PRESET) as bundle:
        backend = load_backend("onnx", bundle, threads=1)
        compare(backend, "long-tailed", long_tailed(128))
        name, lengths = imdb(64)
        compare(backend, f"{name} cut at 512", lengths)
    print(f"Row length of equal costs (model/packing.py says {ATTENTION_PARITY_LENGTH}):")
    for preset in ("tiny", "small", "base"):
        with random_bundle(preset) as bundle:
            found = parity_length(load_backend("onnx", bundle, threads=1))
            print(f"  {preset}: {found:,.0f}")


if __name__ == "__main__":
    main()
