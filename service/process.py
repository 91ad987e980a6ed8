"""A server as a process: serves until a signal says stop, and ends with an exit code."""

import asyncio
import faulthandler
import logging
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from model.bundle import Bundle, load_bundle
from model.errors import HeedfulError
from service.config import ServerConfig
from service.memory import share_arenas
from service.server import Server
from service.versions.serving import Loader, load_engine

log = logging.getLogger(__name__)

# Of a process whose device, engine or gRPC has failed for good; in sysexits.h "internal software
# error".
LOST_EXIT_CODE = 70
# How long a thread may make others wait for the interpreter. With Python's 5 ms the event loop
# stood still for as long again and again, whenever an engine's thread was at its own work.
SWITCH_SECONDS = 0.001


def run(config: ServerConfig, path: Path | None = None, load: Loader = load_engine) -> int:
    """Serves a bundle, and the models that the settings name, until SIGTERM or SIGINT.

    A second signal ends at once. What fails for good ends the process with LOST_EXIT_CODE, so
    that whatever watches over it starts another.

    Returns:
        The exit code: 0 when everything that was accepted is answered.

    Raises:
        BundleError: the bundle is not one, was changed, or does not load.
        SetupError: a port, device or package is not to be had.
    """
    share_arenas()
    sys.setswitchinterval(SWITCH_SECONDS)
    return asyncio.run(_serve(config, load_bundle(path) if path else None, load))


async def _serve(config: ServerConfig, bundle: Bundle | None, load: Loader) -> int:
    stopping = asyncio.Event()
    _on_signals(stopping)
    server = Server(config, bundle, load)
    starting = asyncio.create_task(server.start())
    stopped = asyncio.create_task(stopping.wait())
    watching = asyncio.create_task(_tell_when_stuck(config.stuck_seconds))
    await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
    try:
        await starting
        lost = asyncio.create_task(server.lost.wait())
        await asyncio.wait({stopped, lost}, return_when=asyncio.FIRST_COMPLETED)
        lost.cancel()
    except asyncio.CancelledError:
        log.info("stopped before the model was loaded")
        return 0
    except HeedfulError as error:
        if server.lost.is_set():
            log.error("not started: %s", error)
            _end_lost()
        raise
    finally:
        stopped.cancel()
        watching.cancel()
    finished = await server.stop()
    if server.lost.is_set():
        _end_lost()
    log.info("stopped; %s", "all that was accepted is answered" if finished else "not cleanly")
    return 0 if finished else 1


async def _tell_when_stuck(seconds: float) -> None:
    """Has every thread's frames written to stderr when the event loop has stood still so long.

    Nothing in the loop itself could tell, and health answers nobody then.
    """
    try:
        while seconds:
            faulthandler.dump_traceback_later(seconds)
            await asyncio.sleep(min(1.0, seconds / 4))
    finally:
        faulthandler.cancel_dump_traceback_later()


def _end_lost() -> NoReturn:
    log.error("stopped: an engine or gRPC is lost; exit code %d", LOST_EXIT_CODE)
    logging.shutdown()
    os._exit(LOST_EXIT_CODE)  # what is left in the device's memory cannot be freed in order


def _on_signals(stopping: asyncio.Event) -> None:
    def received(number: signal.Signals) -> None:
        if stopping.is_set():
            log.warning("second signal: ending at once")
            logging.shutdown()
            os._exit(128 + number)
        log.info("%s: finishing what was accepted; once more ends at once", number.name)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, received, number)
