"""How many engines a model gets, with how many threads each, and which of them share a session."""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass

from model.bundle import Bundle
from service.backends import Backend
from service.backends.device import CPU
from service.config import ServerConfig
from service.quota import usable_cpus

log = logging.getLogger(__name__)

# Small runs answer sooner and cost a CPU nothing; a GPU is idle for the most part with less.
CPU_RUN_TOKENS = 256
CUDA_RUN_TOKENS = 16384


@dataclass(frozen=True, slots=True)
class Engines:
    """So many runs at once, each with so many threads."""

    instances: int
    threads: int


def plan_engines(config: ServerConfig, usable: int) -> Engines:
    """What the settings ask for; what they leave open fills the usable processors.

    On CPUs, ONNX Runtime gets one thread for each of as many instances as there are processors:
    threads that share a run wait for each other at every operator, and a second run costs no
    second session. PyTorch has one pool of threads for the whole process.
    """
    alone = config.device != CPU or config.backend == "torch"
    if config.instances:
        return Engines(config.instances, config.threads or max(1, usable // config.instances))
    if config.threads:
        return Engines(1 if alone else max(1, usable // config.threads), config.threads)
    return Engines(1, usable) if alone else Engines(usable, 1)


def plan_run_tokens(config: ServerConfig) -> int:
    """Tokens of one run, as the settings ask for it or as suits the device."""
    return config.run_tokens or (CPU_RUN_TOKENS if config.device == CPU else CUDA_RUN_TOKENS)


def load_instances(
    bundle: Bundle, config: ServerConfig, load: Callable[[Bundle, ServerConfig], Backend]
) -> list[Backend]:
    """The engines of one model, the same object several times where runs can share it.

    A session with one thread runs in its caller's thread, so that several callers are several
    engines over one copy of the weights. A session with more has a pool, which would be shared too.

    Raises:
        BundleError, SetupError: as load does.
    """
    engines = plan_engines(config, usable_cpus())
    first = load(bundle, config)
    log.info(
        "%d engines at once, each with threads %d; %d of %d processors are ours to use",
        engines.instances,
        engines.threads,
        usable_cpus(),
        os.cpu_count() or 1,
    )
    if engines.threads == 1 or config.backend == "torch":
        return [first] * engines.instances
    return [first, *(load(bundle, config) for _ in range(engines.instances - 1))]
