"""Data sets of the Hugging Face hub, and those its `datasets` library saved to disk."""

import os
import re
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from model.data.dataset import SPLITS, Example, RawSplits, Source, SplitName
from model.data.files import Row
from model.data.rows import Columns, Layout, find_layout, read_examples
from model.errors import DataError

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?(:[\w.-]+)?")
NOT_HUB_ENDINGS = (".csv", ".tsv", ".jsonl", ".json", ".txt", ".parquet", ".gz", ".zip", ".xlsx")
CONNECT_TIMEOUT_S = 5.0
# Hidden test labels are published as -1.
NO_LABEL = -1


def is_hub_id(source: str) -> bool:
    """Whether this may name a hub data set: NAME, OWNER/NAME, or either with :CONFIG."""
    return bool(HUB_ID.fullmatch(source)) and not source.endswith(NOT_HUB_ENDINGS)


def is_saved_dataset(path: Path) -> bool:
    """Whether the `datasets` library wrote this folder with save_to_disk."""
    return (path / "dataset_dict.json").is_file() or (path / "state.json").is_file()


def load_saved(path: Path, columns: Columns, skip_bad_rows: bool) -> RawSplits:
    """Loads what save_to_disk wrote, with its splits or without."""
    import datasets

    try:
        loaded = datasets.load_from_disk(str(path))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is not a whole saved data set: {error}") from None
    splits = loaded if isinstance(loaded, dict) else {"train": loaded}
    fingerprints = {name: str(split._fingerprint) for name, split in splits.items()}
    source = Source(name=str(path), fingerprints=fingerprints)
    return _convert(splits, source, columns, skip_bad_rows)


def load_hub(source: str, columns: Columns, skip_bad_rows: bool) -> RawSplits:
    """Downloads a hub data set, or takes it from the library's cache when the hub is away.

    Raises:
        DataError: no such data set, or neither reachable nor in the cache.
    """
    name, _, config = source.partition(":")
    if not _hub_reachable():
        # Read when the library is imported; without it every file is tried for half a minute.
        os.environ["HF_HUB_OFFLINE"] = "1"
    import datasets

    try:
        loaded = datasets.load_dataset(name, config or None)
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DataError(
            f"there is no file or folder {source}, and the Hugging Face hub did not give a data "
            f"set of that name: {reason}. Check the name and the connection, or download the "
            "files and give their folder"
        ) from None
    revisions = {
        split: next(iter(data.info.download_checksums or {}), str(data._fingerprint))
        for split, data in loaded.items()
    }
    origin = Source(name=f"https://huggingface.co/datasets/{name}", fingerprints=revisions)
    if config:
        origin.notes.append(f"configuration {config}")
    return _convert(loaded, origin, columns, skip_bad_rows)


def _hub_reachable() -> bool:
    if getproxies():
        return True  # only a request could tell
    endpoint = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    port = endpoint.port or (80 if endpoint.scheme == "http" else 443)
    try:
        with socket.create_connection((endpoint.hostname or "", port), CONNECT_TIMEOUT_S):
            return True
    except OSError:
        return False


# The library ships no types: Any stands for its Dataset and Features.
def _convert(loaded: Any, source: Source, columns: Columns, skip_bad_rows: bool) -> RawSplits:
    splits: dict[SplitName, list[Example]] = {}
    layout: Layout | None = None
    for name in SPLITS:
        data = loaded.get(name)
        if data is None or not len(data):
            continue
        where = f"{source.name}, split {name}"
        layout = find_layout(columns, data.column_names, where)
        rows = _named_rows(data, layout)
        if all(row[layout.label] is None for _, row in rows):
            source.notes.append(f"the split {name} has no labels and was left out")
            continue
        splits[name], num_bad = read_examples(rows, layout, where, skip_bad_rows)
        if num_bad:
            source.notes.append(f"{num_bad} bad rows of {name} left out")
    if layout is None:
        raise DataError(
            f"{source.name} has none of the splits {', '.join(SPLITS)}: it has {', '.join(loaded)}"
        )
    return RawSplits(splits, source, layout.problem_type)


def _named_rows(data: Any, layout: Layout) -> list[Row]:
    """Rows with class numbers turned into class names."""
    feature = data.features[layout.label]
    names = getattr(feature, "names", None) or getattr(
        getattr(feature, "feature", None), "names", None
    )
    rows: list[Row] = []
    for number, row in enumerate(data, 1):
        cell = row[layout.label]
        if names and isinstance(cell, list):
            row[layout.label] = [names[value] for value in cell]
        elif names and isinstance(cell, int):
            row[layout.label] = None if cell == NO_LABEL else names[cell]
        rows.append((number, row))
    return rows
