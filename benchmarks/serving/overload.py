"""Figure 3: what comes in time when more is asked than can be done.

Each server is started for its turn and stopped after it: a rival goes on computing for callers
that have left, which takes the processors from whoever is measured next.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

from benchmarks.serving.rounds import median, spread
from benchmarks.serving.servers import Address, Figures, loaded

DEADLINE = 0.5
RATES = (0.5, 1.0, 2.0, 3.0)
CALLERS = 256
Start = Callable[[], AbstractContextManager[Address]]


def overload(starts: dict[str, Start], texts: list[str], seconds: float, rounds: int) -> None:
    """Starts: heedful first, then the rivals, by name."""
    found: dict[tuple[str, str], list[Figures]] = {}
    for _ in range(rounds):
        capacity = 0.0
        for name, start in starts.items():
            with start() as server:
                capacity = (
                    capacity or loaded(server, texts, in_flight=64, seconds=seconds)["per_second"]
                )
                for way, figures in measured(server, texts, capacity, seconds).items():
                    found.setdefault((name, way), []).append({**figures, "capacity": capacity})
    capacities = [figures["capacity"] for figures in next(iter(found.values()))]
    print(f"Open loop, {1e3 * DEADLINE:.0f} ms deadlines, capacity {spread(capacities, '.0f')}:")
    for (name, way), turns in found.items():
        shares = [
            figures["per_second"] / max(peak(found, name, turn), 0.1)
            for turn, figures in enumerate(turns)
        ]
        print(
            f"  {name}, {way}: in time {median(turns, 'per_second'):,.0f}/s, "
            f"{spread(shares, '.0%')} of its peak, p99 {median(turns, 'p99_ms'):.0f} ms, "
            f"late {median(turns, 'late_per_second'):,.0f}/s, "
            f"refused {median(turns, 'refused_per_second'):,.0f}/s in p50/p95 "
            f"{median(turns, 'refusal_p50_ms'):.1f}/{median(turns, 'refusal_p95_ms'):.1f} ms"
        )


def measured(
    server: Address, texts: list[str], capacity: float, seconds: float
) -> dict[str, Figures]:
    """One server's turn: rising rates, then callers that each ask again when answered."""
    found = {
        f"{times:g} x": loaded(
            server, texts, rate=times * capacity, deadline=DEADLINE, seconds=2 * seconds
        )
        for times in RATES
    }
    found[f"{CALLERS} callers"] = loaded(
        server, texts, in_flight=CALLERS, deadline=DEADLINE, seconds=2 * seconds
    )
    return found


def peak(found: dict[tuple[str, str], list[Figures]], name: str, turn: int) -> float:
    """The most that came in time at any rate of one turn."""
    return max(found[name, f"{times:g} x"][turn]["per_second"] for times in RATES)
