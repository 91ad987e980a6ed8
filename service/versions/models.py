"""Which models answer: names, their versions, and the one that callers get who name none.

All of it is touched in the event loop only. Moving the default is one assignment; a call keeps
the version it took until it has its answer.
"""

import asyncio
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from model.bundle import Bundle
from model.errors import InvalidInputError
from service.backends import Backend
from service.backends.timed import TimedEngine
from service.errors import LoadingError, NotFoundError, listed
from service.metrics import Metrics
from service.request.cache import AnswerShelf
from service.scheduler import Scheduler
from service.servicer import ClassifierServicer

# How a call ended, as metrics call it.
OUTCOMES = ("answered", "refused")


class ServedModel:
    """One version of one model, loaded and checked; use it in `with` for as long as a call lasts.

    Attributes:
        servicer: answers calls.
        engines: those that run for it, to be asked whether they are stuck.
    """

    def __init__(
        self,
        bundle: Bundle,
        backend: Backend,
        scheduler: Scheduler,
        servicer: ClassifierServicer,
        engines: Sequence[TimedEngine] = (),
        metrics: Metrics | None = None,
        shelf: AnswerShelf | None = None,
    ) -> None:
        self.bundle, self.backend = bundle, backend
        self.scheduler, self.servicer, self.engines = scheduler, servicer, engines
        self._shelf = shelf
        # What is wrong with it now, by who found it; empty while it answers as it should.
        self.troubles: dict[str, str] = {}
        self._calls = metrics and [
            metrics.model_calls.labels(self.name, self.version, outcome) for outcome in OUTCOMES
        ]
        self._num_calls = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def name(self) -> str:
        return self.bundle.manifest.name

    @property
    def version(self) -> str:
        return self.bundle.manifest.version

    @property
    def trouble(self) -> str:
        """What is wrong with it, in a sentence; empty if nothing is."""
        return "; ".join(self.troubles.values())

    @property
    def described(self) -> tuple[str, str, str, str, str]:
        """Name, version, engine, device and precision, as metrics label them."""
        backend = self.backend
        return self.name, self.version, backend.name, backend.device, backend.precision

    def __enter__(self) -> Self:
        self._num_calls += 1
        self._idle.clear()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._calls:
            self._calls[kind is not None].inc()
        self._num_calls -= 1
        if not self._num_calls:
            self._idle.set()

    async def idle(self) -> None:
        """Waits until no call uses this version."""
        await self._idle.wait()

    async def forget_answers(self) -> None:
        """Empties its part of the answer cache, which takes nothing of it any more."""
        while self._shelf is not None and self._shelf.close():
            await asyncio.sleep(0)


class Models:
    """The models that answer now.

    Attributes:
        default_name: the model of callers who name none; empty where they must if there are two.
    """

    def __init__(self, default_name: str = "") -> None:
        self.default_name = default_name
        self._versions: dict[str, dict[str, ServedModel]] = {}
        self._defaults: dict[str, str] = {}
        self._had_any = False

    def get(self, name: str = "", version: str = "") -> ServedModel:
        """The model a caller asks for; empty means the default one.

        Raises:
            LoadingError: nothing is loaded yet.
            InvalidInputError: several models are served and the caller names none.
            NotFoundError: it is not served; the message names what is.
        """
        name = name or self._only_name()
        versions = self._versions.get(name)
        if versions is None:
            if not self._had_any:
                raise LoadingError
            raise NotFoundError("model", name, *self._versions)
        served = versions.get(version or self._defaults[name])
        if served is None:
            raise NotFoundError("version", version, *versions)
        return served

    def add(self, model: ServedModel, *, default: bool = True) -> ServedModel | None:
        """Takes a version into service and returns the one it replaces, if any."""
        self._had_any = True
        versions = self._versions.setdefault(model.name, {})
        replaced = versions.pop(model.version, None)
        versions[model.version] = model
        if default or model.name not in self._defaults:
            self._defaults[model.name] = model.version
        return replaced

    def remove(self, name: str, version: str) -> ServedModel:
        """Takes a version out of service; the newest other one becomes the default if it was.

        Raises:
            NotFoundError: it is not served.
        """
        served = self.get(name, version)
        versions = self._versions[served.name]
        del versions[served.version]
        if not versions:
            del self._versions[served.name], self._defaults[served.name]
        elif self._defaults[served.name] == served.version:
            self._defaults[served.name] = next(reversed(versions))
        return served

    def set_default(self, name: str, version: str) -> None:
        """Moves the pointer; a NotFoundError if that version is not served."""
        served = self.get(name, version)
        self._defaults[served.name] = served.version

    def default_version(self, name: str) -> str:
        """The version that callers get who name none; empty if the model is not served."""
        return self._defaults.get(name, "")

    def versions(self, name: str) -> list[str]:
        """The versions of a model, in the order they were loaded."""
        return list(self._versions.get(name, ()))

    def names(self) -> list[str]:
        return list(self._versions)

    def __iter__(self) -> Iterator[ServedModel]:
        """All versions of all models, in the order they were loaded."""
        # Copied first, since scrapes of the metrics iterate in threads of their own.
        tables = [list(versions.values()) for versions in list(self._versions.values())]
        return iter([served for table in tables for served in table])

    def __len__(self) -> int:
        return sum(map(len, self._versions.values()))

    @property
    def num_texts(self) -> int:
        """Texts waiting for an engine, over all models."""
        return sum(served.scheduler.num_texts for served in self)

    @property
    def num_tokens(self) -> int:
        """Tokens of the texts waiting."""
        return sum(served.scheduler.num_tokens for served in self)

    @property
    def num_running(self) -> int:
        """Texts an engine is computing."""
        return sum(served.scheduler.num_running for served in self)

    @property
    def age_seconds(self) -> float:
        """How long the oldest waiting text has waited; 0 if none waits."""
        return max((served.scheduler.age_seconds for served in self), default=0.0)

    @property
    def predicted_seconds(self) -> float:
        """How long a text that came now would wait, as predicted, for the busiest model."""
        return max((served.scheduler.predicted_seconds for served in self), default=0.0)

    def _only_name(self) -> str:
        if self.default_name in self._versions:
            return self.default_name
        if len(self._versions) > 1:
            raise InvalidInputError(
                f"this server has several models: name {listed(list(self._versions))}"
            )
        return next(iter(self._versions), "")
