"""Logging beside the calls: whoever reads the log slowly, or not at all, holds nobody up."""

import logging
import threading
from collections import deque
from typing import TextIO

FORMAT = "%(asctime)s %(levelname)s %(message)s"
MAX_LINES = 10_000
FLUSH_SECONDS = 1.0


class LogWriter(logging.Handler):
    """Writes records in a thread of its own.

    A pipe that nobody reads takes 64 KiB, some twenty tracebacks, and then stops whoever writes
    to it: with a plain handler the event loop, and with it every call.
    """

    def __init__(self, stream: TextIO, max_lines: int = MAX_LINES) -> None:
        """Takes where to write, and how many records may wait before new ones are dropped."""
        super().__init__()
        self._stream, self._max_lines = stream, max_lines
        self._waiting: deque[str] = deque()
        self._dropped, self._writing = 0, False
        self._news = threading.Condition()
        threading.Thread(target=self._write_all, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
        except Exception:
            self.handleError(record)
            return
        with self._news:
            if len(self._waiting) < self._max_lines:
                self._waiting.append(text)
            else:
                self._dropped += 1
            self._news.notify_all()

    def flush(self) -> None:
        """Waits until all is written, for at most FLUSH_SECONDS."""
        with self._news:
            self._news.wait_for(lambda: not self._waiting and not self._writing, FLUSH_SECONDS)

    def _write_all(self) -> None:
        while True:
            with self._news:
                self._writing = False
                self._news.notify_all()
                self._news.wait_for(lambda: self._waiting)
                text, self._writing = self._waiting.popleft(), True
                if self._dropped and not self._waiting:
                    text += f"\n{self._dropped} lines of this log were dropped: it was not read"
                    self._dropped = 0
            try:
                self._stream.write(text + "\n")
                self._stream.flush()
            except (OSError, ValueError):
                pass  # whoever read it is gone; there is nowhere to say so


def log_beside(stream: TextIO, level: str) -> LogWriter:
    """Sends all of the process's log to a stream, from now on."""
    writer = LogWriter(stream)
    logging.basicConfig(level=level, format=FORMAT, handlers=[writer])
    return writer
