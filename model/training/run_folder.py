"""The folder beside the bundle that holds a run until it is finished: options, checkpoints."""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from model.bundle import check_name, refuse_existing
from model.data.dataset import SPLIT_SEED, Dataset
from model.data.load import load_dataset
from model.data.rows import Columns
from model.errors import DataError
from model.training.checkpoint import checkpoints
from model.training.run import Recipe

OPTIONS = "run.json"
FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Everything a run was started with, so that it can go on without being told again.

    Attributes:
        data: named set, path or hub id.
        name: of the bundle.
        command: as it was typed, for the model card.
    """

    data: str
    name: str
    command: str
    recipe: Recipe
    columns: Columns
    split_seed: int = SPLIT_SEED
    skip_bad_rows: bool = False
    limit: int | None = None

    def __post_init__(self) -> None:
        check_name(self.name)

    def load_dataset(self) -> Dataset:
        return load_dataset(
            self.data,
            self.columns,
            split_seed=self.split_seed,
            skip_bad_rows=self.skip_bad_rows,
            limit=self.limit,
        )


def run_folder_of(output: Path) -> Path:
    """runs/x has its state in runs/x.run."""
    return output.with_name(output.name + ".run")


def start_run(output: Path, options: RunOptions, dataset: Dataset) -> Path:
    """Makes the run's folder; refuses one that holds an unfinished run."""
    refuse_existing(output)
    folder = run_folder_of(output)
    if folder.exists():
        raise DataError(
            f"{folder} holds an unfinished run: go on with it by --resume, delete it, or choose "
            "another output"
        )
    folder.mkdir(parents=True)
    record = {
        "format_version": FORMAT_VERSION,
        **asdict(options),
        "fingerprints": dataset.source.fingerprints,
    }
    text = json.dumps(record, ensure_ascii=False, indent=2)
    (folder / OPTIONS).write_text(text + "\n", encoding="utf-8")
    return folder


def reopen_run(output: Path) -> tuple[Path, RunOptions, Dataset]:
    """Reads what a run was started with and loads its data again.

    Raises:
        DataError: no run there, or the data has changed since.
    """
    refuse_existing(output)
    folder = run_folder_of(output)
    try:
        record: dict[str, Any] = json.loads((folder / OPTIONS).read_text(encoding="utf-8"))
        version = record.pop("format_version")
        fingerprints = record.pop("fingerprints")
        recipe, columns = Recipe.from_dict(record["recipe"]), Columns(**record["columns"])
        options = RunOptions(**{**record, "recipe": recipe, "columns": columns})
    except FileNotFoundError:
        raise DataError(f"{folder} holds no run: start one without --resume") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder / OPTIONS} cannot be read: {error}") from None
    if version != FORMAT_VERSION:
        raise DataError(f"{folder} was written by another heedful: start again without --resume")
    dataset = options.load_dataset()
    if dataset.source.fingerprints != fingerprints:
        raise DataError(
            f"{options.data} has changed since the run was started: delete {folder} and start again"
        )
    return folder, options, dataset


def remove_if_empty(folder: Path) -> bool:
    """Removes a run that has no checkpoint yet: there is nothing to go on with."""
    if checkpoints(folder):
        return False
    remove_run(folder)
    return True


def remove_run(folder: Path) -> None:
    shutil.rmtree(folder)
