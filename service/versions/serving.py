"""From a bundle to a model that answers: engine, warm-up, known example, scheduler, servicer."""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol

from model.bundle import Bundle
from model.errors import BundleError
from service.backends import Backend
from service.backends.device import CPU, DeviceError
from service.backends.failures import device_failure
from service.backends.loading import load_backend
from service.backends.timed import TimedEngine
from service.config import ServerConfig
from service.memory import settle
from service.metrics import Metrics
from service.quota import usable_cpus
from service.request.cache import AnswerCache
from service.scheduler import Scheduler
from service.scheduling.prediction import RunCost
from service.servicer import ClassifierServicer
from service.versions.instances import load_instances, plan_engines, plan_run_tokens
from service.versions.models import ServedModel
from service.versions.warmup import warm_up

log = logging.getLogger(__name__)


class Loader(Protocol):
    """Makes an engine; called in a thread, since it may take seconds."""

    def __call__(self, bundle: Bundle, config: ServerConfig) -> Backend: ...


def load_engine(bundle: Bundle, config: ServerConfig) -> Backend:
    """One engine as the settings ask for it."""
    threads = plan_engines(config, usable_cpus()).threads
    backend = load_backend(
        config.backend,
        bundle,
        device=config.device,
        threads=threads,
        # Waiting busily takes processors from the event loop and the tokenizer: it doubled the
        # CPU time of a lone request and cost a third of the texts/s on a busy machine.
        spinning=False,
        gpu_memory_mb=config.gpu_memory_mb,
        compiled=not config.no_compile,
    )
    log.info("engine %s on %s, threads %d", backend.name, backend.device, threads)
    return backend


async def load_served(
    bundle: Bundle,
    config: ServerConfig,
    *,
    load: Loader,
    executor: ThreadPoolExecutor,
    metrics: Metrics,
    cache: AnswerCache | None = None,
) -> ServedModel:
    """A model that has shown that it answers; nobody is sent to it yet.

    Raises:
        BundleError: the bundle does not load, or answers its known example wrongly.
        SetupError: the engine is not installed, or does not have the device.
    """
    backends, run_tokens = await asyncio.to_thread(_load_allowed, bundle, config, load)
    cost = RunCost()
    for backend in dict.fromkeys(backends):
        cost, run_tokens = await asyncio.to_thread(_warm_up_fitting, backend, bundle, run_tokens)
    engines = [TimedEngine(backend) for backend in backends]
    scheduler = Scheduler(
        engines,
        metrics=metrics,
        max_queue_texts=config.max_queue_texts,
        max_queue_tokens=config.max_queue_tokens,
        max_queue_seconds=config.max_queue_seconds,
        max_run_tokens=run_tokens,
        max_wait=config.max_wait_ms / 1e3,
        pad_token_id=bundle.config.pad_token_id,
        cost=cost,
    )
    backend = backends[0]
    manifest = bundle.manifest
    shelf = None
    if cache is not None:
        shelf = cache.add_shelf(manifest.name, manifest.version, backend.precision)
    servicer = ClassifierServicer(
        bundle, backend, scheduler, config=config, executor=executor, metrics=metrics, shelf=shelf
    )
    served = ServedModel(bundle, backend, scheduler, servicer, engines, metrics, shelf)
    await asyncio.to_thread(settle)  # the longest run has left much behind
    return served


def _load_allowed(
    bundle: Bundle, config: ServerConfig, load: Loader
) -> tuple[Sequence[Backend], int]:
    """Engines on the device that was asked for, or where that is allowed on the CPU.

    Returns:
        The engines, and the tokens that a run of theirs is to have.
    """
    try:
        return load_instances(bundle, config, load), plan_run_tokens(config)
    except DeviceError as error:
        if not config.allow_cpu:
            raise
        log.warning("serving on the CPU, which --allow-cpu permits: %s", error)
    config = replace(config, device=CPU)
    return load_instances(bundle, config, load), plan_run_tokens(config)


def _warm_up_fitting(backend: Backend, bundle: Bundle, run_tokens: int) -> tuple[RunCost, int]:
    """Warms up with runs that fit into the device's memory.

    Returns:
        What runs cost, and how many tokens one may have.

    Raises:
        BundleError: as warm_up does, also if the longest text does not fit.
    """
    while True:
        try:
            return warm_up(backend, bundle, run_tokens), run_tokens
        except BundleError as error:
            cause = error.__cause__
            too_much = cause is not None and device_failure(cause) == "memory"
            if not too_much or run_tokens <= bundle.manifest.max_tokens:
                raise
        log.warning("%s lacks memory for runs of %d tokens", backend.device, run_tokens)
        run_tokens //= 2
