"""The options that say where a data set keeps what, shared by train and evaluate."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from model.data.rows import Columns

Command = TypeVar("Command", bound=Callable[..., Any])

OPTIONS = (
    click.option("--text", metavar="COLUMN", help="Column of the text.  [default: text]"),
    click.option(
        "--text-pair",
        metavar="COLUMN",
        help="Column of a second text.  [default: text_pair, if any]",
    ),
    click.option("--label", metavar="COLUMN", help="Column of the label.  [default: label]"),
    click.option(
        "--labels",
        metavar="COLUMN",
        help="Column of label lists, for texts with any number of labels; in CSV parted by commas. "
        " [default: labels, if there is no label]",
    ),
    click.option("--split-seed", type=int, help="For splits that are cut.  [default: 13]"),
    click.option("--skip-bad-rows", is_flag=True, help="Leave bad rows out instead of refusing."),
    click.option("--limit", type=click.IntRange(min=1), help="Only so many texts of each split."),
)


def data_options(command: Command) -> Command:
    """Adds the options to a command, in the order above."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def take_columns(given: dict[str, Any]) -> "Columns":
    """Takes the column options out of what was given."""
    from model.data.rows import Columns

    return Columns(**{name: given.pop(name) for name in ("text", "text_pair", "label", "labels")})
