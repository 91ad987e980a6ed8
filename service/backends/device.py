"""Reads the name of a device, the same for every engine."""

import re

from model.errors import SetupError

CPU = "cpu"


class DeviceError(SetupError):
    """A device that was asked for is not to be had."""


def cuda_index(device: str) -> int | None:
    """None for "cpu", N for "cuda:N", 0 for "cuda"; a SetupError for anything else."""
    if device == CPU:
        return None
    match = re.fullmatch(r"cuda(?::([0-9]{1,3}))?", device)
    if match is None:
        raise SetupError(f"the device must be cpu, cuda or cuda:N, got {device!r}")
    return int(match[1] or 0)
