"""Turns Ctrl-C and SIGTERM into a question the training loop asks between two steps."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Whether somebody asked to stop; the exit code shells expect is 128 + signal."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __call__(self) -> bool:
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        return 128 + (self.signal or 0)

    def hear(self, signum: int, _frame: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt  # asked twice: at once, wherever we are
        self.signal = signum


@contextmanager
def stop_request() -> Iterator[StopRequest]:
    """Listens for the signals while the block runs; main thread only."""
    request = StopRequest()
    before = {signum: signal.signal(signum, request.hear) for signum in SIGNALS}
    try:
        yield request
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
