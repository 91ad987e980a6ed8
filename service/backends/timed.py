"""A backend that can be asked how long its present run has taken."""

import time

from model.packing import PackedRows
from service.backends import Backend, FloatArray


class TimedEngine:
    """Runs another backend and keeps the time."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.name, self.device = backend.name, backend.device
        self.precision, self.has_attention = backend.precision, backend.has_attention
        self._started: float | None = None

    @property
    def running_seconds(self) -> float:
        """Since its present run began; 0 between runs. From any thread."""
        started = self._started
        return 0.0 if started is None else time.monotonic() - started

    def run(self, rows: PackedRows) -> FloatArray:
        self._started = time.monotonic()
        try:
            return self._backend.run(rows)
        finally:
            self._started = None

    def run_with_attentions(self, rows: PackedRows) -> tuple[FloatArray, FloatArray]:
        self._started = time.monotonic()
        try:
            return self._backend.run_with_attentions(rows)
        finally:
            self._started = None
