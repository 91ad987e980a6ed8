"""What attention costs an engine: a run that returns it beside one that does not, in process.

6 layers, 8 heads, one text of 128 tokens. What a server adds is benchmarks.attention_answer.

Run: python -m benchmarks.attention
"""

import statistics
import time
from collections.abc import Callable

import numpy as np

from benchmarks.bundles import VOCAB_SIZE, random_bundle
from model.packing import PackedRows, pack
from service.backends import Backend
from service.backends.loading import BackendKind, load_backend

PRESET, TOKENS, RUNS = "base", 128, 15
KINDS: tuple[BackendKind, ...] = ("onnx", "torch")


def milliseconds(call: Callable[[], object]) -> float:
    """One call, in milliseconds of this process's processors."""
    start = time.process_time()
    call()
    return 1e3 * (time.process_time() - start)


def measure(backend: Backend, rows: PackedRows) -> None:
    _, attentions = backend.run_with_attentions(rows)  # loads the graph
    plain, asked = [], []
    for _ in range(RUNS):  # taken in turns, so that a busy moment hits both
        plain.append(milliseconds(lambda: backend.run(rows)))
        asked.append(milliseconds(lambda: backend.run_with_attentions(rows)))
    without, with_attentions = statistics.median(plain), statistics.median(asked)
    print(
        f"  {backend.name}: {without:.1f} ms without attention, {with_attentions:.1f} ms with, "
        f"ratio {with_attentions / without:.2f}; {attentions.nbytes / 2**20:.1f} MiB float32 "
        f"of shape {'x'.join(map(str, attentions.shape[1:]))}"
    )


def main() -> None:
    ids = np.random.default_rng(0).integers(4, VOCAB_SIZE, size=TOKENS).tolist()
    print(f"One text of {TOKENS} tokens, {PRESET}, one thread, median of {RUNS} runs:")
    with random_bundle(PRESET) as bundle:
        for kind in KINDS:
            measure(load_backend(kind, bundle, threads=1), pack([ids]))


if __name__ == "__main__":
    main()
