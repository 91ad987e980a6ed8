"""Where bundles come from: those named at the start, and folders NAME/VERSION that come and go."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from model.bundle import MANIFEST, Bundle, check_name, load_bundle
from model.errors import SetupError

# One entry per file: its name, size, time of change and number on its disk.
Look = tuple[tuple[str, int, int, int], ...]
NAME_RULE = "letters, digits, hyphens and underscores"


@dataclass(frozen=True, slots=True)
class Source:
    """A bundle's folder and what it is served as; empty means what the bundle calls itself.

    Attributes:
        opened: the bundle, if somebody has opened it just now.
    """

    path: Path
    name: str = ""
    version: str = ""
    opened: Bundle | None = field(default=None, compare=False)

    def open(self) -> Bundle:
        """The bundle, checked and under the name and version it is served as.

        Raises:
            BundleError: it is not one, or was changed.
        """
        bundle = self.opened or load_bundle(self.path)
        manifest = bundle.manifest
        manifest = replace(
            manifest, name=self.name or manifest.name, version=self.version or manifest.version
        )
        return replace(bundle, manifest=manifest)


def named_source(text: str) -> Source:
    """The source that NAME=DIR says; a SetupError if it does not say one."""
    name, equals, path = text.partition("=")
    if not equals or not path or not _is_name(name):
        raise SetupError(
            f"--model must be NAME=DIR with a name of {NAME_RULE}, got {text!r}: "
            "for example --model reviews=runs/reviews-onnx"
        )
    return Source(Path(path), name)


def scan(folder: Path) -> dict[Source, Look]:
    """The bundles in folder/NAME/VERSION and how their files look now, the lowest version first.

    A folder without bundle.json is not there yet, and one whose name starts with a dot is not
    meant to be.

    Raises:
        SetupError: the folder itself cannot be read.
    """
    try:
        models = sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError as error:
        raise SetupError(
            f"the folder {folder} cannot be read ({error.strerror}): "
            "--models takes a folder of NAME/VERSION folders with a bundle each"
        ) from None
    found: dict[Source, Look] = {}
    for model in models:
        for path in sorted(_subfolders(model), key=lambda path: version_order(path.name)):
            look = _look(path)
            if look:
                found[Source(path, model.name, path.name)] = look
    return found


def version_order(version: str) -> list[tuple[int, int, str]]:
    """A key that sorts 9 before 10, and 1.9 before 1.10."""
    parts = re.findall(r"\d+|\D+", version)
    return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts]


def highest(sources: Iterable[Source]) -> Source:
    return max(sources, key=lambda source: version_order(source.version))


def _is_name(name: str) -> bool:
    try:
        check_name(name)
    except ValueError:
        return False
    return True


def _subfolders(model: Path) -> list[Path]:
    if not _is_name(model.name):
        return []
    try:
        return [path for path in model.iterdir() if _is_name(path.name.replace(".", ""))]
    except OSError:
        return []  # gone since its parent was read


def _look(path: Path) -> Look:
    """How a folder's files look; empty without bundle.json."""
    if path.name.startswith("."):
        return ()
    try:
        files = sorted(path.iterdir())
        stats = [(file.name, file.stat()) for file in files]
    except OSError:
        return ()  # being moved or removed
    if MANIFEST not in {name for name, _ in stats}:
        return ()
    return tuple((name, stat.st_size, stat.st_mtime_ns, stat.st_ino) for name, stat in stats)
