"""What the commands that ask a server share: where it is, what to say when it doesn't answer."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from heedful import Client, HeedfulError, Tls, UnauthenticatedError, UnavailableError
from heedful.admin import CHANGE_SECONDS
from heedful.connection import DEFAULT_TARGET
from heedful.handshakes import FAILED as HANDSHAKE_FAILED
from heedful.identity import read_token

KEPT = "heedful.identity"
Command = TypeVar("Command", bound=Callable[..., Any])


def keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Leaves an option for `asking`, so that commands need not hand it on."""
    ctx.meta.setdefault(KEPT, {})[param.name] = value


def identity_option(flag: str, text: str, **options: Any) -> Callable[[Command], Command]:
    """An option about who we are and whom we trust, with HEEDFUL_... as its variable."""
    name = flag.removeprefix("--").replace("-", "_").upper()
    if "is_flag" not in options:
        options["metavar"] = "FILE"
    return click.option(
        flag,
        help=text,
        envvar=f"HEEDFUL_{name}",
        show_envvar=True,
        expose_value=False,
        callback=keep,
        **options,
    )


ANSWER_SECONDS = 10.0
TARGET = click.option(
    "--target",
    metavar="HOST:PORT",
    default=DEFAULT_TARGET,
    envvar="HEEDFUL_TARGET",
    show_default=True,
    show_envvar=True,
    help="The server to ask.",
)
IDENTITY = (
    identity_option("--tls", "Speak TLS; each of the next three implies it.", is_flag=True),
    identity_option("--ca-cert", "PEM certificates: who may have signed the server's."),
    identity_option("--client-cert", "Our own PEM certificate, for a server that asks for one."),
    identity_option("--client-key", "Its PEM key."),
    identity_option("--token-file", "Our bearer token; or put it into HEEDFUL_TOKEN itself."),
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
    """Adds --target, --timeout and who we are to a command."""
    return _with_options(command, "How long one answer may take.", ANSWER_SECONDS)


def changing_options(command: Command) -> Command:
    """The same for a command that changes what is served, with more time."""
    return _with_options(command, "How long to wait; the server goes on after it.", CHANGE_SECONDS)


def _with_options(command: Command, patience: str, seconds: float) -> Command:
    timeout = click.option(
        "--timeout",
        metavar="SECONDS",
        type=click.FloatRange(min=0, min_open=True),
        default=seconds,
        show_default=True,
        help=patience,
    )
    for option in reversed((TARGET, timeout, *IDENTITY)):
        command = option(command)
    return command


@contextmanager
def asking(target: str, timeout: float) -> Iterator[Client]:
    """A client whose errors end the command with one line that says what to do."""
    try:
        with Client(target, timeout=timeout, **_identity()) as client:
            yield client
    except UnavailableError as error:
        advice = "Start a server with `heedful serve BUNDLE`, or name another with --target"
        if error.reason == HANDSHAKE_FAILED:
            advice = "Look at --tls, --ca-cert, --client-cert and --client-key"
        raise click.ClickException(f"{error}. {advice}") from None
    except UnauthenticatedError as error:
        raise click.ClickException(
            f"{error}. Name its file with --token-file, or put it into HEEDFUL_TOKEN"
        ) from None
    except (HeedfulError, ValueError) as error:
        raise click.ClickException(str(error)) from None


def _identity() -> dict[str, Any]:
    """How to build the client: tls and token."""
    given = click.get_current_context().meta.get(KEPT, {})
    files = {"ca_cert": "ca_cert", "cert": "client_cert", "key": "client_key"}
    named = {name: given[option] for name, option in files.items() if given.get(option)}
    token = os.environ.get("HEEDFUL_TOKEN", "").strip() or None
    if given.get("token_file"):
        token = read_token(given["token_file"])
    return {"tls": Tls(**named) if named else bool(given.get("tls")), "token": token}


def say(text: str) -> None:
    """Prints to stdout, with a question mark for what its encoding cannot write."""
    encoding = sys.stdout.encoding or "utf-8"
    click.echo(text.encode(encoding, "replace").decode(encoding), color=True)
