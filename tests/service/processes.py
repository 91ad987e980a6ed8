"""Servers in processes of their own, whose log is read as it comes."""

import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.service.calls import TIMEOUT

HEEDFUL = Path(sys.executable).with_name("heedful")
# Of the metrics those that say what became of calls.
NEWS = re.compile(r"heedful_(requests_total|departed_total|refusals_total|queue_texts|running)")
FREE_PORTS = ["--port", "0", "--metrics-port", "0", "--threads", "1"]


class ServerProcess:
    """A process that serves, from its start to its end.

    Its stderr is read by a thread: a full pipe would stop the server in the middle of a line.
    """

    def __init__(self, command: Sequence[str | Path]) -> None:
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self._lines: list[str] = []
        self._ended, self._reading = False, threading.Event()
        self._reading.set()
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        """What it has said so far."""
        return "".join(self._lines)

    @property
    def address(self) -> str:
        return self._said(r"listening on (\S+)")

    def metrics(self) -> dict[str, float]:
        """Samples by name, with labels where there are some."""
        with urllib.request.urlopen(self._said(r"metrics on (\S+)"), timeout=TIMEOUT) as page:  # noqa: S310 - our own
            families = text_string_to_metric_families(page.read().decode())
        return {
            "/".join([sample.name, *sample.labels.values()]): sample.value
            for family in families
            for sample in family.samples
        }

    def wait_for(self, words: str) -> None:
        """Waits until the log has these words, and fails if it ends without them."""

        def settled() -> bool:
            return words in self.log or self._ended

        with self._news:
            self._news.wait_for(settled, TIMEOUT)
        assert words in self.log, self.log

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def ended(self, timeout: float = TIMEOUT) -> int:
        """Waits for its end and gives the exit code; the log is whole then."""
        code = self._process.wait(timeout)
        self._reader.join(timeout)
        return code

    def stop_reading(self) -> None:
        """Leaves its log alone from now on, as a terminal does that is paused."""
        self._reading.clear()

    def kill(self) -> None:
        self._reading.set()
        self._process.kill()
        self.ended()

    def _said(self, pattern: str) -> str:
        found = re.search(pattern, self.log)
        assert found, self.log
        return found[1]

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            for line in stderr:
                self._add(line)
                self._reading.wait()
        self._ended = True
        self._add("")

    def _add(self, line: str) -> None:
        with self._news:
            self._lines.append(line)
            self._news.notify_all()


@contextmanager
def running(command: Sequence[str | Path]) -> Iterator[ServerProcess]:
    """A server process that is ready; a test that fails shows what the server has seen."""
    process = ServerProcess(command)
    try:
        process.wait_for("ready after")
        yield process
    except BaseException:
        print(process.log)
        with suppress(OSError):  # it may have ended
            print({name: value for name, value in process.metrics().items() if NEWS.match(name)})
        raise
    finally:
        process.kill()


@contextmanager
def serving(bundle: str | Path, *options: str) -> Iterator[ServerProcess]:
    """`heedful serve` that is ready, with the options given."""
    with running([HEEDFUL, "serve", bundle, *FREE_PORTS, *options]) as process:
        yield process
