"""Files that are read again when they change, as secrets and certificates that are renewed do."""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from model.errors import SetupError

log = logging.getLogger(__name__)

T = TypeVar("T")
# A change is noticed within this time; looking costs a few microseconds.
LOOK_SECONDS = 0.5

# (modified in nanoseconds, bytes, inode) of each file.
Stamp = tuple[tuple[int, int, int], ...]


class Watched(Generic[T]):
    """What a reader makes of some files. Safe to use from any thread.

    Files that cannot be used at the start are a SetupError. Later the value before stays, and the
    log and a counter say so: a renewal that went wrong must not stop a server that works.
    """

    def __init__(
        self, paths: Sequence[Path], read: Callable[[], T], reloaded: Callable[[str], None]
    ) -> None:
        """Reads the files.

        Args:
            paths: what to look at.
            read: makes the value; raises SetupError.
            reloaded: told "taken" or "refused" after each change.

        Raises:
            SetupError: from read.
        """
        self._paths, self._read, self._reloaded = paths, read, reloaded
        self._lock = threading.Lock()
        self._stamp = self._look()
        self._looked = time.monotonic()
        self._value = read()

    def get(self) -> T:
        """The value of the files as they are, or as they last were of use."""
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            with self._lock:
                self._refresh()
        return self._value

    def _refresh(self) -> None:
        self._looked = time.monotonic()
        stamp = self._look()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        names = ", ".join(map(str, self._paths))
        try:
            self._value = self._read()
        except SetupError as error:
            log.error("%s changed and cannot be used; what was read before stays: %s", names, error)
            self._reloaded("refused")
        else:
            log.info("%s changed and was read again", names)
            self._reloaded("taken")

    def _look(self) -> Stamp:
        return tuple(map(_stamp, self._paths))


def read_file(path: Path, what: str) -> bytes:
    """The bytes of a file; a SetupError that says what it is for if there are none."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SetupError(f"the {what} {path} cannot be read: {error.strerror}") from None
    if not data.strip():
        raise SetupError(f"the {what} {path} is empty")
    return data


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino
