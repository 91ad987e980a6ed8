"""The file that `heedful tune` writes and `heedful serve --tuned` reads."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from model.errors import SetupError

FORMAT = 1
SETTINGS = ("instances", "threads", "run_tokens")


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """What won on one machine with one bundle.

    Attributes:
        cpus: processors it may use.
        model, version, precision: of the bundle.
        lengths: in words, which texts it was measured with.
        texts_per_second: what the winner did.
        settings: of the server, by name.
    """

    cpus: int
    model: str
    version: str
    precision: str
    lengths: str
    texts_per_second: float
    settings: dict[str, int]

    def __post_init__(self) -> None:
        if set(self.settings) != set(SETTINGS):
            raise ValueError(f"settings must be {SETTINGS}, got {sorted(self.settings)}")
        if not all(type(value) is int and value > 0 for value in self.settings.values()):
            raise ValueError(f"settings must be positive whole numbers, got {self.settings}")


def write_tuned(path: Path, tuned: Tuned) -> None:
    """Writes the file at once or not at all; a SetupError if it cannot be written."""
    text = json.dumps({"format": FORMAT, **asdict(tuned)}, indent=2, ensure_ascii=False) + "\n"
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        raise SetupError(f"{path} cannot be written: {error.strerror}") from None


def read_tuned(path: Path) -> Tuned:
    """The file's content; a SetupError that says what is wrong with it."""
    try:
        record: Any = json.loads(path.read_text(encoding="utf-8"))
        if record.pop("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        return Tuned(**record)
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SetupError(
            f"{path} is no file of `heedful tune` ({error}): make one with "
            "`heedful tune BUNDLE --output FILE`"
        ) from None


def unlike(tuned: Tuned, cpus: int, bundle: Path | None) -> list[str]:
    """How the machine and the bundle differ from those that were measured, as sentences."""
    said = []
    if tuned.cpus != cpus:
        said.append(f"it was made for {tuned.cpus} processors and {cpus} are ours to use")
    manifest = _manifest(bundle) if bundle else {}
    for name in ("version", "precision"):
        measured, found = getattr(tuned, name), manifest.get(name)
        if found is not None and found != measured:
            said.append(f"it was made for {tuned.model}, {name} {measured}, and this is {found}")
    return said


def _manifest(bundle: Path) -> dict[str, Any]:
    """What bundle.json says; nothing if it does not, which loading it will complain about."""
    try:
        record = json.loads((bundle / "bundle.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
