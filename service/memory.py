"""How much of freed memory the C library keeps: bounded from the start, given back when asked."""

import ctypes
import os
from typing import Any

from service.quota import usable_cpus

# Operators who know better; then theirs holds.
ARENAS_VARIABLE = "MALLOC_ARENA_MAX"
M_ARENA_MAX = -8  # in glibc's malloc.h
ARENAS_PER_CPU = 3


def share_arenas() -> None:
    """Lets threads share a few heaps; call it before there are threads.

    glibc gives eight heaps to a processor, and each keeps what the longest text ever took in it:
    100 reloads of a MiniLM-sized model under load took a server to 200 to 360 MB. With three to a
    processor 60 reloads stay between 150 and 216 at the same speed; with one, between 140 and 202,
    but threads wait for each other and 2.8 % of the texts/s are gone. Blocks outside of heaps would
    keep less still, but a limit that catches them (M_MMAP_THRESHOLD) costs 1.1 to 5 times the
    processor time.
    """
    if ARENAS_VARIABLE not in os.environ:
        _call("mallopt", M_ARENA_MAX, ARENAS_PER_CPU * usable_cpus())


def give_back() -> None:
    """Has the C library return what it keeps of freed memory; some milliseconds, in a thread.

    An engine's weights are freed in many pieces between others, and glibc keeps them: 30 reloads
    of a model with 43 MB of weights, under load, took a server from 250 to 420 MB, and to 260 where
    this was called after each had drained. The runs of a warm-up leave as much.
    """
    _call("malloc_trim", 0)


def _call(name: str, *values: int) -> None:
    function: Any = getattr(ctypes.CDLL(None), name, None)  # glibc alone has them all
    if function is not None:
        function(*values)
