"""Where each version of each model stands, as ListModels shows it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from service.versions.models import Models, ServedModel

# A model and a version of it.
Key = tuple[str, str]


class State(Enum):
    """Where a version stands."""

    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Listed:
    """One version as ListModels shows it; reason says what is wrong, if something is."""

    name: str
    version: str
    state: State
    reason: str = ""
    is_default: bool = False
    served: ServedModel | None = None


def list_versions(
    models: Models,
    loading: Iterable[Key],
    failures: Mapping[Key, str],
    draining: Iterable[ServedModel],
) -> list[Listed]:
    """Every version that answers, is on its way in or out, or failed to load; by model."""
    rows = {
        (served.name, served.version): _answering(models, failures, served) for served in models
    }
    for key in loading:
        rows.setdefault(key, Listed(*key, State.LOADING))
    for key, reason in failures.items():
        rows.setdefault(key, Listed(*key, State.FAILED, reason))
    leaving = [
        Listed(served.name, served.version, State.DRAINING, served=served) for served in draining
    ]
    return sorted([*rows.values(), *leaving], key=lambda row: row.name)


def _answering(models: Models, failures: Mapping[Key, str], served: ServedModel) -> Listed:
    key = served.name, served.version
    failure = failures.get(key)
    return Listed(
        *key,
        State.FAILED if served.trouble else State.READY,
        served.trouble or (f"not loaded anew: {failure}" if failure else ""),
        served.version == models.default_version(served.name),
        served,
    )
