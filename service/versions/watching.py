"""Follows the folder of models: new and changed versions are loaded, removed ones unloaded."""

import asyncio
import logging

from model.errors import HeedfulError, SetupError
from service.versions.folders import Look, Source, version_order
from service.versions.repository import Repository

log = logging.getLogger(__name__)


class FolderWatch:
    """Compares the folder with how it looked before; what loading a version says is in the log."""

    def __init__(self, repository: Repository, seconds: float) -> None:
        """Takes the folder's owner, and the seconds between two looks."""
        self._repository, self._seconds = repository, seconds
        self._seen: dict[Source, Look] = {}
        self._unreadable = False

    async def run(self) -> None:
        """Follows the folder until it is cancelled."""
        while True:
            await asyncio.sleep(self._seconds)
            await self.follow()

    async def remember(self) -> None:
        """Takes what is there now for known."""
        self._seen = await self._repository.look()

    async def follow(self) -> None:
        """Looks once and does what has changed."""
        try:
            found = await self._repository.look()
        except SetupError as error:
            # A disk that is away for a moment must not unload everything.
            if not self._unreadable:
                log.error("%s; what is loaded goes on answering", error)
            self._unreadable = True
            return
        self._unreadable = False
        gone = [source for source in self._seen if source not in found]
        new = [source for source, look in found.items() if self._seen.get(source) != look]
        self._seen = found
        for source in new:
            await self._load(source)
        for source in gone:
            await self._unload(source)

    async def _load(self, source: Source) -> None:
        name, version = source.name, source.version
        models = self._repository.models
        default = models.default_version(name)
        older = bool(default) and version_order(version) < version_order(default)
        if older and version not in models.versions(name) and not self._repository.has_room(name):
            log.info("model %s, version %s, is there and older than those kept", name, version)
            return
        try:
            await self._repository.load(name, version, keep_default=older)
        except HeedfulError as error:
            log.debug("The folder of model %s, version %s: %s", name, version, error)

    async def _unload(self, source: Source) -> None:
        try:
            await self._repository.unload(source.name, source.version)
        except HeedfulError as error:
            log.debug("Version %s of model %s: %s", source.version, source.name, error)
