"""Texts/s and CPU time, served with 1 and 32 in flight, beside the same engines in process.

Run: python -m benchmarks.serving_overhead [SIZE] [float32 | int8]
"""

import sys
from functools import partial

import numpy as np

from benchmarks.bundles import random_bundle
from benchmarks.lengths import long_tailed
from benchmarks.serving.limit import Limit
from benchmarks.serving.rounds import Ways, in_turns, ratio
from benchmarks.serving.servers import loaded, serving
from benchmarks.serving.texts import WORDS, mean_tokens
from benchmarks.serving.throughput import show

ROUNDS, SECONDS, NUM_TEXTS = 5, 3.0, 400


def long_tailed_texts() -> list[str]:
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(WORDS, size=length)) for length in long_tailed(NUM_TEXTS)]


def main(size: str = "base", precision: str = "float32") -> None:
    texts = long_tailed_texts()
    with random_bundle(size, int8=precision == "int8") as bundle, serving(bundle) as server:
        limit = Limit(bundle, texts)
        ways: Ways = {
            "in process, one by one": partial(limit.one_by_one, SECONDS),
            "served, 1 in flight": partial(loaded, server, texts, in_flight=1, seconds=SECONDS),
            "in process, packed": partial(limit.packed, SECONDS),
            "served, 32 in flight": partial(loaded, server, texts, in_flight=32, seconds=SECONDS),
        }
        found = in_turns(ways, ROUNDS)
    print(f"{size} {precision}, mean {mean_tokens(texts):.0f} tokens, median of {ROUNDS} rounds:")
    show(found, mean_tokens(texts))
    print(ratio(found, "served, 1 in flight", "in process, one by one"))
    print(ratio(found, "served, 32 in flight", "in process, packed"))


if __name__ == "__main__":
    main(*sys.argv[1:])
