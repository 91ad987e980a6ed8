"""From a bundle to a model that answers: engine, warm-up, known example, scheduler, servicer."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from model.bundle import Bundle
from service.backends import Backend
from service.backends.loading import load_backend
from service.backends.timed import TimedEngine
from service.cache import AnswerCache
from service.config import ServerConfig
from service.instances import load_instances, plan_engines
from service.metrics import Metrics
from service.models import ServedModel
from service.prediction import RunCost
from service.quota import usable_cpus
from service.scheduler import Scheduler
from service.servicer import ClassifierServicer
from service.warmup import warm_up

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
    backends = await asyncio.to_thread(load_instances, bundle, config, load)
    cost = RunCost()
    for backend in dict.fromkeys(backends):
        cost = await asyncio.to_thread(warm_up, backend, bundle, config.run_tokens)
    engines = [TimedEngine(backend) for backend in backends]
    scheduler = Scheduler(
        engines,
        metrics=metrics,
        max_queue_texts=config.max_queue_texts,
        max_queue_tokens=config.max_queue_tokens,
        max_queue_seconds=config.max_queue_seconds,
        max_run_tokens=config.run_tokens,
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
    return ServedModel(bundle, backend, scheduler, servicer, engines, metrics, shelf)
