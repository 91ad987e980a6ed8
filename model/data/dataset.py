"""What a data set is once it is read: three splits of labelled texts and where they came from."""

import random
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from model.bundle import ProblemType
from model.errors import DataError

SplitName = Literal["train", "validation", "test"]
SPLITS: tuple[SplitName, ...] = get_args(SplitName)
# One text in ten validates, one in ten tests, the other eight train.
SHARES = 10
SPLIT_SEED = 13


@dataclass(frozen=True, slots=True)
class Example:
    """One text, or pair, with its labels: exactly one unless the data set is multi-label.

    row is where it stood in its source, for messages: a line or row number counted from 1.
    """

    text: str
    text_pair: str | None
    labels: tuple[str, ...]
    row: int


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a data set came from, for the bundle and its model card.

    Attributes:
        name: what was asked for: a path, a named set or a hub id.
        fingerprints: sha256 of each file, or the revision, by file name.
        credit: the line its licence asks for; empty where none is known.
        notes: what was done to it on the way: rows dropped, splits cut.
    """

    name: str
    fingerprints: dict[str, str]
    credit: str = ""
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Three splits of examples; labels are sorted, and every one of them occurs in train."""

    train: list[Example]
    validation: list[Example]
    test: list[Example]
    labels: list[str]
    problem_type: ProblemType
    source: Source

    def split(self, name: str) -> list[Example]:
        """The examples of train, validation or test; a DataError for any other name."""
        if name not in SPLITS:
            raise DataError(f"there is no split {name!r}: choose one of {', '.join(SPLITS)}")
        examples: list[Example] = getattr(self, name)
        return examples

    @property
    def num_rows(self) -> dict[str, int]:
        return {name: len(self.split(name)) for name in SPLITS}


@dataclass(frozen=True)
class RawSplits:
    """The splits as their source has them: maybe only one, labels not compared yet."""

    splits: dict[SplitName, list[Example]]
    source: Source
    problem_type: ProblemType = "single_label"


def make_dataset(raw: RawSplits, seed: int = SPLIT_SEED) -> Dataset:
    """Cuts the splits that are missing out of train and checks the labels.

    Raises:
        DataError: too few texts to cut, one label only, or a label that train never shows.
    """
    splits, source = raw.splits, raw.source
    if "train" not in splits:
        raise DataError(f"{source.name} has no train split: it has {', '.join(splits) or 'none'}")
    whole = _cut_missing(splits, source, seed)
    seen = {label for example in whole["train"] for label in example.labels}
    _check_labels(whole, seen, source.name)
    if len(seen) < 2:
        raise DataError(
            f"{source.name} has only the label {', '.join(seen)!r} in train: "
            "a classifier needs at least two"
        )
    return Dataset(
        train=whole["train"],
        validation=whole["validation"],
        test=whole["test"],
        labels=sorted(seen, key=_natural),
        problem_type=raw.problem_type,
        source=source,
    )


def split_by_group(
    examples: Sequence[Example],
    group: Callable[[Example], Hashable],
    shares: Sequence[SplitName],
    seed: int = SPLIT_SEED,
) -> dict[SplitName, list[Example]]:
    """Deals whole groups of examples to splits, in the proportion the names occur in shares.

    Groups of the same labels are dealt together, so that splits resemble each other.
    """
    members: dict[Hashable, list[Example]] = defaultdict(list)
    for example in examples:
        members[group(example)].append(example)
    groups = list(members.values())
    random.Random(seed).shuffle(groups)  # noqa: S311 - reproducible, not secret
    groups.sort(key=lambda group: group[0].labels)
    splits: dict[SplitName, list[Example]] = {name: [] for name in dict.fromkeys(shares)}
    for index, members_of_one in enumerate(groups):
        splits[shares[index % len(shares)]].extend(members_of_one)
    return splits


def draw(examples: Sequence[Example], limit: int | None, seed: int = SPLIT_SEED) -> list[Example]:
    """At most limit examples in their order, drawn by seed: files are often sorted by label."""
    if limit is None or limit >= len(examples):
        return list(examples)
    indices = random.Random(seed).sample(range(len(examples)), limit)  # noqa: S311 - likewise
    return [examples[index] for index in sorted(indices)]


def same_text(example: Example) -> Hashable:
    """Repeated texts are one group: a text seen in training must not come back in the test."""
    return (" ".join(example.text.split()), " ".join((example.text_pair or "").split()))


def _cut_missing(
    splits: dict[SplitName, list[Example]], source: Source, seed: int
) -> dict[SplitName, list[Example]]:
    missing = [name for name in SPLITS if name not in splits]
    if not missing:
        return splits
    num_texts = len({same_text(example) for example in splits["train"]})
    if num_texts < SHARES:
        raise DataError(
            f"{source.name} has {num_texts} different texts to train on, and "
            f"{' and '.join(missing)} would have to be cut out of them: give at least "
            f"{SHARES}, or a folder with the files train, validation and test"
        )
    shares: list[SplitName] = ["train"] * (SHARES - len(missing))
    cut = split_by_group(splits["train"], same_text, [*shares, *missing], seed)
    source.notes.append(
        f"{' and '.join(missing)} cut out of train, one text in {SHARES} each, seed {seed}"
    )
    return {**splits, **cut}


def _check_labels(splits: dict[SplitName, list[Example]], seen: set[str], source_name: str) -> None:
    for name, examples in splits.items():
        if not examples:
            raise DataError(f"the split {name} of {source_name} has no rows")
        unseen = sorted({label for example in examples for label in example.labels} - seen)
        if unseen:
            raise DataError(
                f"the split {name} of {source_name} has labels that train does not: "
                f"{', '.join(unseen[:10])}. A classifier cannot learn what it never sees"
            )


def _natural(label: str) -> tuple[int, int, str]:
    """Sorts 2 before 10, and numbers before words."""
    return (0, int(label), label) if label.isdecimal() and label.isascii() else (1, 0, label)
