"""Finds a data set by what it is called: a named set, a file, a folder or a hub id."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from model.data.dataset import (
    SPLIT_SEED,
    SPLITS,
    Dataset,
    Example,
    RawSplits,
    Source,
    SplitName,
    draw,
    make_dataset,
)
from model.data.files import ENDINGS, ending, read_rows
from model.data.hub import is_hub_id, is_saved_dataset, load_hub, load_saved
from model.data.named import NAMED, load_named
from model.data.rows import Columns, find_layout, read_examples
from model.errors import DataError


def load_dataset(
    source: str | Path,
    columns: Columns | None = None,
    *,
    split_seed: int = SPLIT_SEED,
    skip_bad_rows: bool = False,
    limit: int | None = None,
) -> Dataset:
    """Loads a data set in three splits; those that are missing are cut out of train.

    Args:
        source: rotten-tomatoes, chinese-reviews, a file or folder of CSV, TSV, JSONL or Parquet
            (gz or not), a folder written by the datasets library, or a Hugging Face hub id.
        columns: names of the columns where they are not the usual ones.
        split_seed: for the splits that are cut.
        skip_bad_rows: leave bad rows out, and say how many in source.notes, instead of refusing.
        limit: at most this many texts a split, drawn by split_seed; for a quick try.

    Raises:
        DataError: not found, or not what it should be; the message names the row or column.
    """
    raw = _load(str(source), columns or Columns(), skip_bad_rows)
    dataset = make_dataset(raw, split_seed)
    return dataset if limit is None else _limited(dataset, limit, split_seed)


def load_examples(
    source: str | Path,
    split: SplitName | Literal["all"],
    columns: Columns | None = None,
    *,
    split_seed: int = SPLIT_SEED,
    skip_bad_rows: bool = False,
) -> tuple[list[Example], RawSplits]:
    """Loads one split, or the whole source, to score a classifier on; and where it is from.

    A split that is missing is cut out of train as load_dataset does it.
    """
    raw = _load(str(source), columns or Columns(), skip_bad_rows)
    if split == "all":
        return [example for examples in raw.splits.values() for example in examples], raw
    if split in raw.splits:
        return raw.splits[split], raw
    return make_dataset(raw, split_seed).split(split), raw


def _load(source: str, columns: Columns, skip_bad_rows: bool) -> RawSplits:
    path = Path(source)
    if source in NAMED:
        if columns != Columns():
            raise DataError(f"{source} has its own columns: leave the column options out")
        return load_named(source)
    if is_saved_dataset(path):
        return load_saved(path, columns, skip_bad_rows)
    if path.exists():
        return _load_files(path, columns, skip_bad_rows)
    if is_hub_id(source):
        return load_hub(source, columns, skip_bad_rows)
    raise DataError(f"{source} does not exist; named data sets are {', '.join(NAMED)}")


def _load_files(path: Path, columns: Columns, skip_bad_rows: bool) -> RawSplits:
    paths: dict[SplitName, Path] = _split_files(path) if path.is_dir() else {"train": path}
    fingerprints: dict[str, str] = {}
    notes: list[str] = []
    splits: dict[SplitName, list[Example]] = {}
    problem_types = set()
    for name, file in paths.items():
        rows, fingerprints[file.name] = read_rows(file)
        layout = find_layout(columns, list(rows[0][1]), str(file))
        problem_types.add(layout.problem_type)
        splits[name], num_bad = read_examples(rows, layout, str(file), skip_bad_rows)
        if num_bad:
            notes.append(f"{num_bad} bad rows of {file.name} left out")
    if len(problem_types) > 1:
        raise DataError(f"the files of {path} disagree on one label or several: name the column")
    source = Source(name=str(path), fingerprints=fingerprints, notes=notes)
    return RawSplits(splits, source, problem_types.pop())


def _split_files(folder: Path) -> dict[SplitName, Path]:
    found: dict[SplitName, Path] = {}
    for name in SPLITS:
        files = sorted(
            file
            for file in folder.iterdir()
            if file.name.split(".")[0] == name and ending(file) is not None
        )
        if len(files) > 1:
            raise DataError(
                f"{folder} has several files for {name}: {', '.join(file.name for file in files)}; "
                "keep one"
            )
        if files:
            found[name] = files[0]
    if "train" not in found:
        raise DataError(
            f"{folder} has no train file: it should hold train, validation and test, each ending "
            f"in one of {', '.join('.' + ending_ for ending_ in ENDINGS)}, gz or not"
        )
    return found


def _limited(dataset: Dataset, limit: int, seed: int) -> Dataset:
    if limit < 1:
        raise DataError(f"the limit of texts must be at least 1, got {limit}")
    splits = {name: draw(dataset.split(name), limit, seed) for name in SPLITS}
    note = f"only {limit} texts of each split were used, drawn with seed {seed}"
    source = replace(dataset.source, notes=[*dataset.source.notes, note])
    return make_dataset(RawSplits(splits, source, dataset.problem_type))
