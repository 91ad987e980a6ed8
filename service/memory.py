"""What of memory is kept and looked at: bounded from the start, put in order when asked.

For a process that serves; what is set here holds for all of it.
"""

import ctypes
import gc
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


def settle() -> None:
    """Puts memory in order after a model has come or gone; call it in a thread, with few about.

    The C library returns what it keeps of freed memory. An engine's weights are freed in many
    pieces between others, and glibc keeps them: 30 reloads of a model with 43 MB of weights, under
    load, took a server from 250 to 420 MB, and to 260 where this was called after each had
    drained. The runs of a warm-up leave as much.

    What is there stays out of later garbage collections. The event loop and everybody who waits
    for it stood still for 18 to 35 ms, about once a second under load, while Python looked through
    modules and models in vain.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    _call("malloc_trim", 0)


def unsettle() -> None:
    """Lets garbage collections see everything again, for a process that goes on without models."""
    gc.unfreeze()


def _call(name: str, *values: int) -> None:
    function: Any = getattr(ctypes.CDLL(None), name, None)  # glibc alone has them all
    if function is not None:
        function(*values)
