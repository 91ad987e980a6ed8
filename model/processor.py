"""What the processor can do, as far as answers depend on it, and what suits it."""

import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
X86 = {"x86_64", "amd64"}
# ONNX Runtime's operator for a sum and the layer norm after it takes ten times as long on a CPU as
# the two one by one. On a GPU it is one kernel instead of two, and stays.
SLOW_FUSIONS = ("SkipLayerNormFusion",)


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
