"""Loads versions beside those that answer, moves the default, and lets the old ones drain.

Changes happen one after the other, so that at most one model more than is served takes memory.
"""

import asyncio
import logging
import time
import traceback
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from model.errors import BundleError, HeedfulError, InvalidInputError, SetupError
from service.backends.failures import is_device_lost
from service.config import ServerConfig
from service.errors import DrainingError, LoadFailedError, NotFoundError
from service.metrics import Metrics
from service.request.cache import AnswerCache
from service.versions.draining import Draining
from service.versions.folders import Look, Source, highest, named_source, scan
from service.versions.listing import Key, Listed, list_versions
from service.versions.models import Models, ServedModel
from service.versions.serving import Loader, load_served

log = logging.getLogger(__name__)

T = TypeVar("T")


class Repository:
    """The models of one server, and all that changes them; touched in the event loop only.

    Attributes:
        models: those that answer.
    """

    def __init__(
        self,
        config: ServerConfig,
        models: Models,
        given: Sequence[Source] = (),
        *,
        load: Loader,
        executor: ThreadPoolExecutor,
        metrics: Metrics,
        changed: Callable[[], None],
        lost: Callable[[], None] = lambda: None,
        cache: AnswerCache | None = None,
    ) -> None:
        """Takes what was named at the start; nothing is loaded yet.

        Args:
            given: bundles beside those that the settings name.
            changed: called after every change of what is served.
            lost: called when a version's first runs have cost the process its device.
        """
        self.models = models
        self._config, self._load_engine = config, load
        self._executor, self._metrics, self._changed = executor, metrics, changed
        self._lost = lost
        self._cache = cache
        self._given = [*map(named_source, config.model), *given]
        self._folder = Path(config.models) if config.models else None
        # Where each version was loaded from, to load it anew; they stay here when unloaded.
        self._sources: dict[Key, Source] = {}
        self._loading: set[Key] = set()
        self._failures: dict[Key, str] = {}
        self._draining = Draining(config, models, metrics)
        self._one_change = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing = False

    async def start(self) -> None:
        """Loads the bundles given and, of every model in the folder, the highest versions.

        Raises:
            SetupError: a source cannot be read, or there is nothing to serve.
            BundleError: a bundle that was given by name does not load.
        """
        async with self._one_change:
            found = list(await self.look())
            for name in dict.fromkeys(source.name for source in found):
                await self._start_model([source for source in found if source.name == name])
            for source in self._given:
                served = await self._open(source, told=False)
                self._admit(source, served, default=True)
                if not source.name:
                    self.models.default_name = served.name
        if not len(self.models):
            reasons = "; ".join(self._failures.values())
            raise SetupError(
                f"no model in {self._folder} could be loaded: "
                + (reasons or "put bundles into folders NAME/VERSION there")
            )

    async def look(self) -> dict[Source, Look]:
        """The bundles in the folder that is watched; a SetupError if it cannot be read."""
        return await asyncio.to_thread(scan, self._folder) if self._folder else {}

    async def load(
        self, name: str, version: str = "", *, keep_default: bool = False
    ) -> ServedModel:
        """Loads a version, or loads it anew, and makes it the default unless told not to.

        Args:
            version: empty means the highest there is.

        Raises:
            NotFoundError: there is no such bundle.
            LoadFailedError: it does not load; what answered before still does.
        """
        _check_named(name)
        source = await self._find(name, version)
        return await self._in_turn(self._load(source, version, not keep_default))

    async def unload(self, name: str, version: str = "") -> list[str]:
        """Takes a version, or all of a model, out of service, and waits until it has drained.

        Returns:
            The versions unloaded.

        Raises:
            NotFoundError: it is not served and has not failed to load either.
        """
        _check_named(name)
        draining = await self._in_turn(self._unload(name, version))
        await asyncio.shield(asyncio.gather(*draining.values()))
        return list(draining)

    def set_default(self, name: str, version: str) -> str:
        """Moves the default to a version that is loaded, and returns the one it was.

        Raises:
            NotFoundError: that version is not loaded.
        """
        _check_named(name)
        if not version:
            raise InvalidInputError("the request names no version: say which becomes the default")
        previous = self.models.default_version(name)
        self.models.set_default(name, version)
        log.info("model %s: the default is version %s, before %s", name, version, previous)
        self._changed()
        return previous

    def listing(self) -> list[Listed]:
        """Every version that answers, is on its way in or out, or failed to load."""
        return list_versions(self.models, self._loading, self._failures, self._draining)

    def has_room(self, name: str) -> bool:
        """Whether one more version of a model would stay loaded."""
        keep = self._config.keep_versions
        return not keep or len(self.models.versions(name)) < keep

    def stop_changing(self) -> None:
        """Gives up what is being loaded, and refuses further changes."""
        self._closing = True
        for task in self._tasks:
            task.cancel()

    async def drained(self) -> None:
        """Waits until what is leaving has left."""
        await self._draining.finished()

    async def close(self, timeout: float) -> bool:
        """Finishes what was accepted, and ends; False if an engine is stuck."""
        self.stop_changing()
        everything = [*self.models, *self._draining]
        self._draining.give_up()
        ended = await asyncio.gather(*(served.scheduler.close(timeout) for served in everything))
        return all(ended)

    async def _start_model(self, sources: list[Source]) -> None:
        """Loads the highest versions that load; broken ones are told and passed over."""
        keep = self._config.keep_versions or len(sources)
        loaded: list[tuple[Source, ServedModel]] = []
        for source in reversed(sources):
            with suppress(Exception):  # told by then
                loaded.append((source, await self._open(source)))
            if len(loaded) == keep:
                break
        for source, served in reversed(loaded):
            self._admit(source, served, default=True)

    async def _find(self, name: str, version: str) -> Source:
        """Where a version is; the folder comes before what was given by name."""
        given = {
            number: source for (model, number), source in self._sources.items() if model == name
        }
        found = [source for source in await self.look() if source.name == name]
        there = {**given, **{source.version: source for source in found}}
        if version in there:
            return there[version]
        if version or not there:
            kind, asked, others = ("version", version, there) if there else ("model", name, ())
            raise NotFoundError(kind, asked, *(others or self.models.names()))
        return highest(found) if found else list(given.values())[-1]

    async def _load(self, source: Source, version: str, default: bool) -> ServedModel:
        try:
            served = await self._open(source, version)
        except Exception as error:
            raise LoadFailedError(source.name or source.path.name, _reason(error)) from None
        self._admit(source, served, default)
        return served

    async def _open(self, source: Source, version: str = "", *, told: bool = True) -> ServedModel:
        """Loads and checks a version beside what answers; a failure is remembered and told."""
        key = source.name or source.path.name, version or source.version
        self._loading.add(key)
        start = time.monotonic()
        try:
            bundle = await asyncio.to_thread(source.open)
            if version and bundle.manifest.version != version:
                raise BundleError(f"{source.path} now holds version {bundle.manifest.version}")
            served = await load_served(
                bundle,
                self._config,
                load=self._load_engine,
                executor=self._executor,
                metrics=self._metrics,
                cache=self._cache,
            )
        except Exception as error:
            self._failures[key] = reason = _reason(error)
            self._metrics.model_loads.labels(key[0], "failed").inc()
            if told:
                log.error("model %s, version %s, was not loaded: %s", *key, reason)
            if is_device_lost(error):
                self._lost()  # with it, all versions that use it
            raise
        finally:
            self._loading.discard(key)
        self._failures.pop(key, None)
        seconds = time.monotonic() - start
        log.info("loaded model %s, version %s, in %.1f s", served.name, served.version, seconds)
        return served

    def _admit(self, source: Source, served: ServedModel, default: bool) -> None:
        """Takes a version into service; what it replaces, and the oldest, begin to drain."""
        name = served.name
        self._sources[name, served.version] = replace(source, name=name, opened=None)
        self._failures.pop((name, served.version), None)
        self._metrics.model_loads.labels(name, "loaded").inc()
        replaced = self.models.add(served, default=default)
        self._metrics.model_info.labels(*served.described).set(1)
        if replaced is not None:
            self._draining.retire(replaced)
        keep = self._config.keep_versions
        while keep and len(versions := self.models.versions(name)) > keep:
            current = self.models.default_version(name)
            oldest = next(version for version in versions if version != current)
            self._draining.retire(self.models.remove(name, oldest))
        self._changed()

    async def _unload(self, name: str, version: str) -> dict[str, asyncio.Task[None]]:
        failed = [key for key in self._failures if key == (name, version or key[1])]
        for key in failed:
            del self._failures[key]
        served = [number for number in self.models.versions(name) if version in {"", number}]
        if not served and not failed:
            self.models.get(name, version)  # says what there is
        retire = self._draining.retire
        draining = {number: retire(self.models.remove(name, number)) for number in served}
        self._changed()
        return draining

    async def _in_turn(self, change: Coroutine[Any, Any, T]) -> T:
        """Runs a change after those before it; a caller that leaves does not undo half of it."""

        async def run() -> T:
            async with self._one_change:
                return await change

        if self._closing:
            change.close()
            raise DrainingError
        return await asyncio.shield(self._spawn(run()))

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _check_named(name: str) -> None:
    if not name:
        raise InvalidInputError("the request names no model: say which")


def _reason(error: Exception) -> str:
    """Why a bundle was not loaded; of a fault in an engine only its kind, the rest is logged."""
    if isinstance(error, HeedfulError):
        return str(error)
    frames = "".join(traceback.format_tb(error.__traceback__))
    log.error("An engine could not be made: %s: %s\n%s", type(error).__name__, error, frames)
    return f"its engine failed with {type(error).__name__}; the server's log says where"
