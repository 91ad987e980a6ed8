"""How many processors this process may really use: a container's quota, not the host's cores."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

PROCESS_GROUPS = "proc/self/cgroup"
MOUNT = "sys/fs/cgroup"
CPU_CONTROLLER = "cpu"


def usable_cpus(root: Path = Path("/")) -> int:
    """Whole processors within the affinity mask and every cgroup quota above us; at least 1.

    A part of a processor is not counted: a thread more than the quota pays for is put to sleep in
    the middle of a run.

    Args:
        root: where /proc and /sys are.
    """
    cpus = float(_affinity())
    for quota in _quotas(root):
        cpus = min(cpus, quota)
    return max(1, int(cpus))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[float]:
    """Processors allowed by each cgroup that limits them, of version 2 and 1."""
    for line in _read(root / PROCESS_GROUPS).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if not controllers:
            for folder in _up(root / MOUNT, group):
                yield from _quota_v2(folder)
        elif CPU_CONTROLLER in controllers.split(","):
            for mount in (controllers, CPU_CONTROLLER):
                for folder in _up(root / MOUNT / mount, group):
                    yield from _quota_v1(folder)


def _up(mount: Path, group: str) -> Iterator[Path]:
    """The group's folder and those above it; a quota on any of them binds.

    Inside a container the group may be named as the host sees it, and not be there: the walk then
    ends at the mount, which is the container's own group.
    """
    path = PurePosixPath(group.lstrip("/"))
    if ".." in path.parts:
        path = PurePosixPath()
    for part in (path, *path.parents):
        yield mount / part


def _quota_v2(folder: Path) -> Iterator[float]:
    quota, _, period = _read(folder / "cpu.max").partition(" ")
    yield from _ratio(quota, period)


def _quota_v1(folder: Path) -> Iterator[float]:
    yield from _ratio(_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us"))


def _ratio(quota: str, period: str) -> Iterator[float]:
    """Nothing where there is no limit: "max" in version 2, -1 in version 1, or no file."""
    try:
        microseconds, every = int(quota), int(period)
    except ValueError:
        return
    if microseconds > 0 and every > 0:
        yield microseconds / every


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
