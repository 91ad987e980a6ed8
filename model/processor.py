"""What the processor can do, as far as answers depend on it."""

import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
X86 = {"x86_64", "amd64"}


def cuts_byte_sums(machine: str | None = None, cpuinfo: Path = CPUINFO) -> bool:
    """Whether ONNX Runtime's fastest sums of 8-bit products may be cut off at 16 bits here.

    So it is on x86 without VNNI. "session.x64quantprecision" makes them exact, and with VNNI, where
    they are anyway, half as fast; so it is not for all.
    """
    if (machine or platform.machine()).lower() not in X86:
        return False
    try:
        return "vnni" not in cpuinfo.read_text(encoding="utf-8")
    except OSError:  # not Linux: slow is better than wrong
        return True
