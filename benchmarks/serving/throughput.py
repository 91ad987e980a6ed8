"""Figures 1 and 2: texts/s beside the limit and beside two rivals."""

import itertools
from functools import partial

from benchmarks.serving.limit import Limit
from benchmarks.serving.rounds import Found, Ways, in_turns, median, ratio
from benchmarks.serving.servers import Address, loaded
from benchmarks.serving.texts import mean_tokens

RIVALS_LONGER = 5


def throughput(
    servers: dict[str, Address], limit: Limit, texts: list[str], seconds: float, rounds: int
) -> None:
    """Servers: heedful and the rivals, by name."""
    ways: Ways = {
        "limit, one by one": lambda: limit.one_by_one(seconds),
        "limit, packed": lambda: limit.packed(seconds),
    }
    loads = [("heedful", *load) for load in itertools.product((1, 8, 64), (1, 16))]
    rivals = [name for name in servers if name != "heedful"]
    for name, in_flight, size in [*loads, *((rival, 64, 1) for rival in rivals)]:
        # One padded batch may take seconds; a short look would see none or two of them.
        longer = RIVALS_LONGER if name in rivals else 1
        load = {"in_flight": in_flight, "texts": size, "seconds": longer * seconds}
        ways[f"{name}, {in_flight} x {size}"] = partial(loaded, servers[name], texts, **load)
    print("Throughput, in flight x texts a request:")
    found = in_turns(ways, rounds)
    show(found, mean_tokens(texts))
    print(ratio(found, "heedful, 64 x 16", "limit, packed"))
    print(ratio(found, "heedful, 64 x 1", "limit, packed"))
    for rival in rivals:
        print(ratio(found, "heedful, 64 x 1", f"{rival}, 64 x 1"))


def show(found: Found, tokens: float) -> None:
    for way, rounds in found.items():
        rate = median(rounds, "per_second")
        tails = "/".join(f"{median(rounds, f'p{share}_ms'):.0f}" for share in (50, 95, 99))
        print(
            f"  {way:<26}{rate:>8,.1f} texts/s{rate * tokens:>9,.0f} tokens/s"
            f"  p50/p95/p99 {tails} ms  {median(rounds, 'cpu_ms'):.2f} CPU s per 1,000"
        )
