"""Builds a server from its settings, starts it, and stops it in an order that loses nothing."""

import asyncio
import logging
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2_grpc

from model.bundle import Bundle
from model.errors import SetupError
from service.config import ServerConfig
from service.memory import unsettle
from service.metrics import Metrics
from service.model_queues import ModelQueues
from service.network.border import SERVICE, Border
from service.network.health import Health
from service.network.reflecting import Reflection
from service.network.transport import Transport
from service.oip.methods import SERVICE as OIP_SERVICE
from service.oip.methods import OpenInference
from service.quota import usable_cpus
from service.request.cache import AnswerCache
from service.request.reserve import Reserve
from service.scraping import MetricsServer
from service.versions.admin import ADMIN_SERVICE, Administration
from service.versions.folders import Source
from service.versions.models import Models
from service.versions.repository import Repository
from service.versions.serving import Loader, load_engine
from service.versions.watchdog import Watchdog
from service.versions.watching import FolderWatch

log = logging.getLogger(__name__)

MAX_TOKENIZER_THREADS = 4
HEALTH_SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
# Time for calls on the wire to be told that the server is stopping.
LINGER_SECONDS = 0.1
# The least time an engine gets to come back when the grace is used up.
LAST_SECONDS = 1.0
# Time for callers to be told of a lost device, which takes no work any more.
LOST_GRACE = 2.0


class Server:
    """One server; start, then stop, inside one running event loop.

    Attributes:
        lost: set when a device, an engine's thread or gRPC has failed for good: then only a new
            process helps.
        models: those that answer.
        repository: what changes them.
    """

    def __init__(
        self,
        config: ServerConfig,
        bundle: Bundle | None = None,
        load: Loader = load_engine,
    ) -> None:
        """Takes the settings, and the bundle for callers who name no model."""
        self.config = config
        self.metrics = Metrics()
        self.models = Models()
        self.metrics.watch(self.models)
        self.metrics.registry.register(ModelQueues(self.models))
        reserve = Reserve(config.max_unread_bytes)
        self.metrics.watch_reserve(lambda: reserve.num_bytes)
        cache = AnswerCache(config.cache_mb << 20) if config.cache_mb else None
        self.metrics.watch_cache(lambda: cache.num_bytes if cache else 0)
        self._border = Border(
            self.models,
            metrics=self.metrics,
            default_timeout=config.default_timeout,
            max_stream_requests=config.max_stream_requests,
            reserve=reserve,
        )
        self._health = Health([SERVICE])
        self._executor = ThreadPoolExecutor(
            min(usable_cpus(), MAX_TOKENIZER_THREADS), thread_name_prefix="tokenizer"
        )
        self.lost = asyncio.Event()
        self.repository = Repository(
            config,
            self.models,
            [Source(bundle.path, opened=bundle)] if bundle else [],
            load=load,
            executor=self._executor,
            metrics=self.metrics,
            changed=self._refresh,
            lost=self.lost.set,
            cache=cache,
        )
        self._watchdog = Watchdog(
            self.models,
            stuck_seconds=config.stuck_seconds,
            canary_seconds=config.canary_seconds,
            metrics=self.metrics,
            changed=self._refresh,
            lost=self.lost.set,
        )
        self._background: list[asyncio.Task[None]] = []
        self._ready = False
        self._transport = Transport(config, self.metrics)
        self._server = self._grpc_server()
        self._metrics_server: MetricsServer | None = None
        self.port = 0

    @property
    def address(self) -> str:
        """Where gRPC listens."""
        return self.config.address_with(self.port)

    @property
    def metrics_url(self) -> str:
        port = self._metrics_server.port if self._metrics_server else 0
        return f"http://{self.config.address_with(port)}/metrics"

    async def start(self) -> None:
        """Listens with health NOT_SERVING, loads and checks the engine, then serves.

        Raises:
            SetupError: a port, device or package is not to be had, or there is no model.
            BundleError: a bundle given by name does not load, or answers its known example wrongly.
        """
        try:
            await self._listen()
            await self._load_models()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> bool:
        """Reports not ready, refuses new work, finishes what was accepted, and ends.

        Returns:
            False if an engine did not come back within the grace.
        """
        for task in self._background:
            task.cancel()
        self._ready = False
        self._refresh()
        if len(self.models) and not self.lost.is_set():
            await asyncio.sleep(self.config.drain_delay)
        self._border.drain()
        self.repository.stop_changing()
        self._health.end_watches()
        self._reflection.end_streams()
        end = time.monotonic() + (LOST_GRACE if self.lost.is_set() else self.config.grace)
        # gRPC resets calls it has received and not yet handed over when it stops. So it goes on
        # listening, new calls are told UNAVAILABLE, and it stops when there is nothing to reset.
        with suppress(TimeoutError):
            async with asyncio.timeout_at(end):
                await self._border.idle()
                await asyncio.sleep(LINGER_SECONDS)
        await self._server.stop(max(0.0, end - time.monotonic()))
        left = max(LAST_SECONDS, end - time.monotonic())
        finished = await self.repository.close(left)
        self._executor.shutdown(wait=False, cancel_futures=True)
        unsettle()
        if self._metrics_server is not None:
            self._metrics_server.stop()
            self._metrics_server = None
        return finished

    async def _listen(self) -> None:
        config = self.config
        _check_free(config.host, config.port)
        try:
            self.port = self._transport.add_port(self._server)
        except RuntimeError:
            raise _taken(config.host, config.port, "it cannot be bound") from None
        self._metrics_server = MetricsServer(self.metrics, config.host, config.metrics_port)
        await self._server.start()
        log.info("listening on %s", self.address)
        log.info("metrics on %s", self.metrics_url)

    async def _load_models(self) -> None:
        start = time.monotonic()
        await self.repository.start()
        work = [self._watchdog.run(), self._guard_port()]
        if self.config.models and self.config.poll_seconds:
            watch = FolderWatch(self.repository, self.config.poll_seconds)
            await watch.remember()
            work.append(watch.run())
        self._background = [asyncio.create_task(item) for item in work]
        for task in self._background:
            task.add_done_callback(self._check_end)
        self._ready = True
        self._refresh()
        log.info(
            "ready after %.1f s: %s",
            time.monotonic() - start,
            "; ".join(
                f"model {served.name}, version {served.version}, {served.backend.precision}"
                for served in self.models
            ),
        )

    async def _guard_port(self) -> None:
        """Fails when gRPC stops by itself, which would leave a process that answers nobody."""
        # Without the shield, cancelling this would cancel what gRPC itself waits for.
        await asyncio.shield(self._server.wait_for_termination())
        raise SetupError("gRPC has stopped by itself")

    def _check_end(self, task: asyncio.Task[None]) -> None:
        """Ends the process if what must go on beside the calls does not."""
        if not task.cancelled():
            log.critical("A task of the server has ended", exc_info=task.exception())
            self.lost.set()

    def _refresh(self) -> None:
        """Tells health and metrics what answers now."""
        models: dict[str, bool] = {}
        self.metrics.model_ready.clear()
        for served in self.models:
            well = not served.trouble
            models[f"{SERVICE}/{served.name}/{served.version}"] = well and self._ready
            if served.version == self.models.default_version(served.name):
                models[f"{SERVICE}/{served.name}"] = well and self._ready
            self.metrics.model_ready.labels(served.name, served.version).set(well)
        serving = self._ready and bool(models) and all(models.values())
        self._health.set_serving(serving, models)
        self.metrics.ready.set(serving)

    def _grpc_server(self) -> "grpc.aio.Server":
        server = grpc.aio.server(
            interceptors=self._transport.interceptors, options=self._transport.options
        )
        administration = Administration(self.repository, allowed=self.config.allow_admin)
        server.add_generic_rpc_handlers(
            (
                self._border.handlers(),
                *administration.handlers(self._border),
                OpenInference(self.repository, self._health, self.config).handlers(self._border),
            )
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        added = self._transport.add_services(server)
        self._reflection = Reflection((*added, SERVICE, ADMIN_SERVICE, OIP_SERVICE, HEALTH_SERVICE))
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(self._reflection, server)
        return server


def _check_free(host: str, port: int) -> None:
    """Tries the port before gRPC does, which would write lines of its own to stderr."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise _taken(host, port, error.strerror or str(error)) from None


def _taken(host: str, port: int, why: str) -> SetupError:
    return SetupError(
        f"the port {host}:{port} cannot be opened ({why}): stop what uses it, "
        "or choose others with --host and --port"
    )
