"""Everything that is promised of the served speed, in one run.

Run: python -m benchmarks.serving [SIZE] [float32 | int8] [SECONDS] [ROUNDS]

Client, server and rivals share the processors, so ratios count.
"""

import sys
from contextlib import ExitStack
from functools import partial

from benchmarks.bundles import random_bundle
from benchmarks.serving.attention_share import attention_share
from benchmarks.serving.limit import Limit
from benchmarks.serving.lone_caller import lone_caller
from benchmarks.serving.overload import Start, overload
from benchmarks.serving.servers import module, serving
from benchmarks.serving.texts import made_up_texts, mean_tokens
from benchmarks.serving.throughput import throughput
from service.quota import usable_cpus

RIVALS = ("padded", "threads")


def main(
    size: str = "minilm", precision: str = "int8", seconds: str = "3", rounds: str = "3"
) -> None:
    with random_bundle(size, int8=precision == "int8") as bundle:
        starts: dict[str, Start] = {"heedful": partial(serving, bundle)}
        for rival in RIVALS:
            starts[rival] = partial(module, "rivals", rival, str(bundle.path))
        texts = made_up_texts(bundle.manifest.max_tokens)
        print(
            f"{size} {precision}, {usable_cpus()} processors, mean {mean_tokens(texts):.0f} tokens,"
            f" median of {rounds} rounds of {seconds} s (from least to most)",
            flush=True,
        )
        long, times = float(seconds), int(rounds)
        with ExitStack() as stack:
            servers = {name: stack.enter_context(start()) for name, start in starts.items()}
            limit = Limit(bundle, texts)
            throughput(servers, limit, texts, long, times)
            lone_caller(servers["heedful"], limit, texts, times)
        attention_share(bundle, texts, long, times)
        overload(starts, texts, long, times)


if __name__ == "__main__":
    main(*sys.argv[1:])
