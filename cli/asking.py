"""What the commands that ask a server share: where it is, what to say when it doesn't answer."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from heedful import Client, HeedfulError, UnavailableError
from heedful.connection import DEFAULT_TARGET

Command = TypeVar("Command", bound=Callable[..., Any])

OPTIONS = (
    click.option(
        "--target",
        metavar="HOST:PORT",
        default=DEFAULT_TARGET,
        envvar="HEEDFUL_TARGET",
        show_default=True,
        show_envvar=True,
        help="The server to ask.",
    ),
    click.option(
        "--timeout",
        metavar="SECONDS",
        type=click.FloatRange(min=0, min_open=True),
        default=10.0,
        show_default=True,
        help="How long one answer may take.",
    ),
)
TRUNCATION = click.option(
    "--truncation",
    type=click.Choice(["error", "head", "tail", "head_tail"]),
    default="error",
    show_default=True,
    help="What to keep of a text that is too long; error refuses it.",
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


def server_options(command: Command) -> Command:
    """Adds --target and --timeout to a command."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


@contextmanager
def asking(target: str, timeout: float) -> Iterator[Client]:
    """A client whose errors end the command with one line that says what to do."""
    try:
        with Client(target, timeout=timeout) as client:
            yield client
    except UnavailableError as error:
        raise click.ClickException(
            f"{error}. Start a server with `heedful serve BUNDLE`, or name another with --target"
        ) from None
    except (HeedfulError, ValueError) as error:
        raise click.ClickException(str(error)) from None


def say(text: str) -> None:
    """Prints to stdout, with a question mark for what its encoding cannot write."""
    encoding = sys.stdout.encoding or "utf-8"
    click.echo(text.encode(encoding, "replace").decode(encoding), color=True)
