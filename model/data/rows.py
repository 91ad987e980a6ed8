"""Rows of any source turned into examples: which columns, which labels, which rows are bad."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from model.bundle import ProblemType
from model.data.dataset import Example
from model.data.files import Row
from model.errors import DataError

MAX_REPORTED = 5


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Where a row keeps what; None means the usual name, if the data has it.

    Attributes:
        text: the text to classify; usually "text".
        text_pair: a second text; usually "text_pair".
        label: the one label; usually "label".
        labels: a list of labels, which makes the data multi-label; usually "labels".
    """

    text: str | None = None
    text_pair: str | None = None
    label: str | None = None
    labels: str | None = None

    def __post_init__(self) -> None:
        if self.label is not None and self.labels is not None:
            raise DataError("give a column of one label or a column of label lists, not both")


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns as found in one data set."""

    text: str
    text_pair: str | None
    label: str
    problem_type: ProblemType


def find_layout(columns: Columns, present: Sequence[str], where: str) -> Layout:
    """Finds the columns; a DataError names those there are when one is missing."""

    def require(name: str) -> str:
        if name not in present:
            raise DataError(
                f"{where} has no column {name!r}: it has {', '.join(map(repr, present))}. "
                "Name the right one by option"
            )
        return name

    text = require(columns.text or "text")
    pair = require(columns.text_pair) if columns.text_pair else None
    if pair is None and "text_pair" in present:
        pair = "text_pair"
    if not (columns.label or columns.labels) and {"label", "labels"} <= set(present):
        raise DataError(f"{where} has both a column 'label' and 'labels': name one by option")
    if columns.labels or (not columns.label and "labels" in present):
        return Layout(text, pair, require(columns.labels or "labels"), "multi_label")
    return Layout(text, pair, require(columns.label or "label"), "single_label")


def read_examples(
    rows: Sequence[Row], layout: Layout, where: str, skip_bad_rows: bool = False
) -> tuple[list[Example], int]:
    """The examples of the rows, and how many bad rows were skipped.

    Raises:
        DataError: bad rows, listed with their numbers, unless they are to be skipped.
    """
    examples: list[Example] = []
    complaints: list[str] = []
    for number, row in rows:
        try:
            examples.append(_example(number, row, layout))
        except ValueError as error:
            complaints.append(f"row {number}: {error}")
    if complaints and not skip_bad_rows:
        more = len(complaints) - MAX_REPORTED
        raise DataError(
            f"{where} has {len(complaints)} bad row{'s' * (len(complaints) > 1)}: "
            f"{'; '.join(complaints[:MAX_REPORTED])}{f'; and {more} more' if more > 0 else ''}. "
            "Correct them, or skip bad rows by option"
        )
    return examples, len(complaints)


def _example(number: int, row: dict[str, Any], layout: Layout) -> Example:
    text = _text(row, layout.text)
    pair = _text(row, layout.text_pair) if layout.text_pair else None
    cell = row.get(layout.label)
    if layout.problem_type == "multi_label":
        labels = tuple(dict.fromkeys(map(_label, _label_list(cell, layout.label))))
    else:
        labels = (_label(cell),)
    return Example(text, pair, labels, number)


def _text(row: dict[str, Any], column: str) -> str:
    text = row.get(column)
    if not isinstance(text, str):
        kind = "missing" if text is None else f"{type(text).__name__}, not text"
        raise ValueError(f"{column} is {kind}")
    if not text.strip():
        raise ValueError(f"{column} is empty")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(f"{column} has a lone surrogate, which is not Unicode text")
    return text


def _label(cell: object) -> str:
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)  # a column of whole numbers with a gap comes back from Parquet as floats
    if not isinstance(cell, str | int) or not str(cell).strip():
        raise ValueError("the label is missing" if cell in (None, "") else f"no label: {cell!r}")
    return str(cell).strip()


def _label_list(cell: object, column: str) -> Sequence[object]:
    """A list as it is; in CSV, where there are no lists, a JSON array or commas."""
    if isinstance(cell, str):
        if cell.lstrip().startswith("["):
            cell = json.loads(cell)
        else:
            return [part for part in cell.split(",") if part.strip()]
    if not isinstance(cell, list):
        raise ValueError(f"{column} is not a list of labels")
    return cell
