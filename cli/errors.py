"""Turns heedful's own errors into a message and exit code 1, and lets bugs show themselves."""

from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def plain_errors(*kinds: type[Exception]) -> Iterator[None]:
    """Reports errors of these kinds without a traceback."""
    try:
        yield
    except kinds as error:
        raise click.ClickException(str(error)) from None
