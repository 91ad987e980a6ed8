"""How an engine's thread stands to the event loop, for the system's scheduler."""

import os
import sys
import threading
from contextlib import suppress

ENGINE_NICENESS = 10


def step_back() -> None:
    """Lets this thread run when the event loop does not want to, where the system can do that.

    Under overload the loop has to read and refuse more than the engines can do; as one among
    equals it came late to everything, and a third of the answers with it.
    """
    if sys.platform == "linux":  # elsewhere threads have no niceness of their own
        with suppress(PermissionError):  # a sandbox without setpriority serves as before
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), ENGINE_NICENESS)
