"""Ways to do the same, measured in turns, so that a busy moment of the machine hits all of them."""

import statistics
from collections.abc import Callable

from benchmarks.serving.servers import Figures

Ways = dict[str, Callable[[], Figures]]
Found = dict[str, list[Figures]]


def in_turns(ways: Ways, rounds: int) -> Found:
    """What each way did in each round; every other round goes backwards, so that none is first."""
    found: Found = {way: [] for way in ways}
    for number in range(rounds):
        for way in list(ways) if number % 2 == 0 else reversed(ways):
            found[way].append(ways[way]())
    return found


def median(rounds: list[Figures], name: str) -> float:
    return statistics.median(figures.get(name, 0.0) for figures in rounds)


def spread(values: list[float], form: str) -> str:
    """The median, and the range where there is one."""
    middle = format(statistics.median(values), form)
    if len(values) == 1:
        return middle
    return f"{middle} ({format(min(values), form)} to {format(max(values), form)})"


def ratio(found: Found, one: str, other: str, name: str = "per_second") -> str:
    """Of two ways, each round for itself."""
    pairs = zip(found[one], found[other], strict=True)
    return f"  {one} / {other} = {spread([a[name] / max(b[name], 0.1) for a, b in pairs], '.2f')}"
