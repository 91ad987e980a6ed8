"""What an engine's error says of its device: out of memory, or lost until the process ends.

Neither engine has types for all of it, so that messages are read. Those of torch begin with
"CUDA error:", those of ONNX Runtime have "CUDA failure 700:", with the driver's number.
"""

import re
from typing import Literal

Failure = Literal["memory", "lost"]

_CUDA_NUMBER = re.compile(r"CUDA (?:failure|error) (\d{1,4})\b")
_MEMORY_NUMBER = 2
# The context is unusable after these: cudaErrorECCUncorrectable, NvlinkUncorrectable,
# IllegalAddress, LaunchTimeout, Assert, HardwareStackError to LaunchFailure, Unknown.
_LOST_NUMBERS = {214, 220, 700, 702, 710, *range(714, 720), 999}
_MEMORY_WORDS = (
    "Failed to allocate memory for requested buffer",
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)
_LOST_WORDS = (
    "illegal memory access",
    "device-side assert",
    "unspecified launch failure",
    "illegal instruction was encountered",
    "misaligned address",
    "hardware stack error",
    "invalid program counter",
    "operation not supported on global/shared address space",
    "uncorrectable ECC error",
    "launch timed out",
    "CUDA error: unknown error",
)


def device_failure(error: BaseException) -> Failure | None:
    """ "memory" if less work may succeed, "lost" if nothing can any more, else None."""
    message = str(error)
    found = _CUDA_NUMBER.search(message)
    number = int(found[1]) if found else 0
    if number in _LOST_NUMBERS or any(words in message for words in _LOST_WORDS):
        return "lost"
    if number == _MEMORY_NUMBER or any(words in message for words in _MEMORY_WORDS):
        return "memory"
    # By name, so that a server without torch need not import it.
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(error).__mro__}
    return "memory" if ("torch", "OutOfMemoryError") in kinds else None


def is_device_lost(error: BaseException) -> bool:
    """Whether an error, or the one that it tells in our words, means "lost"."""
    told = (error, error.__cause__)
    return any(each is not None and device_failure(each) == "lost" for each in told)
