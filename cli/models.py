"""`heedful models`: the versions a server has, and changing them by hand."""

import json
from dataclasses import asdict

import click

from cli.asking import AS_JSON, asking, changing_options, say, server_options
from heedful import Admin, ModelVersion
from heedful.pictures.cells import cells, pad
from heedful.tokens import visible

HEADINGS = ("model", "version", "state", "engine", "reason")


@click.group(
    epilog="""\b
Examples:
  heedful models list
  heedful models load reviews
  heedful models default reviews 1

\b
All but list need a server that was started with --allow-admin.
Exit code: 0 done, 1 refused or no server there, 2 wrong usage.
"""
)
def models() -> None:
    """List, load, unload and choose the models of a server."""


@models.command("list")
@server_options
@AS_JSON
def list_(target: str, timeout: float, as_json: bool) -> None:
    """Show every version: those that answer, are on their way in or out, or failed to load."""
    with asking(target, timeout) as client:
        versions = client.list_models()
    if as_json:
        say(json.dumps({"models": [asdict(row) for row in versions]}, ensure_ascii=False))
    else:
        say("\n".join(_table([HEADINGS, *map(_row, versions)])))


@models.command()
@click.argument("model")
@click.argument("version", default="")
@click.option("--keep-default", is_flag=True, help="Callers who name no version keep theirs.")
@changing_options
@AS_JSON
def load(
    model: str, version: str, keep_default: bool, target: str, timeout: float, as_json: bool
) -> None:
    """Load VERSION of MODEL, the highest unless named, beside those that answer.

    It is warmed up and checked, and then becomes the default. A version that is loaded already is
    read anew.
    """
    with asking(target, timeout) as client:
        loaded = Admin(client, timeout=timeout).load_model(
            model, version, keep_default=keep_default
        )
    if as_json:
        say(json.dumps({"model": model, **asdict(loaded)}, ensure_ascii=False))
        return
    is_default = loaded.version == loaded.default_version
    standing = "" if is_default else f"; the default is still {visible(loaded.default_version)}"
    say(f"{visible(model)} {visible(loaded.version)} is loaded{standing}")
    if is_default:
        _tell_default(model, loaded.version, loaded.previous_default_version)


@models.command()
@click.argument("model")
@click.argument("version", default="")
@click.option("--all", "everything", is_flag=True, help="Unload all versions of MODEL.")
@changing_options
@AS_JSON
def unload(
    model: str, version: str, everything: bool, target: str, timeout: float, as_json: bool
) -> None:
    """Take VERSION of MODEL out of service, and wait until its callers have their answers."""
    if bool(version) is everything:
        raise click.UsageError("Name the VERSION to unload, or say --all.")
    with asking(target, timeout) as client:
        unloaded = Admin(client, timeout=timeout).unload_model(model, version)
    if as_json:
        say(json.dumps({"model": model, "versions": unloaded}, ensure_ascii=False))
    elif unloaded:
        say("\n".join(f"{visible(model)} {visible(number)} is unloaded" for number in unloaded))
    else:
        say(f"{visible(model)}: only versions that had failed to load, which are forgotten")


@models.command()
@click.argument("model")
@click.argument("version")
@changing_options
@AS_JSON
def default(model: str, version: str, target: str, timeout: float, as_json: bool) -> None:
    """Give VERSION of MODEL, which must be loaded, to callers who name none: the way back.

    `heedful models load MODEL VERSION` does the same for a version that is not loaded any more.
    """
    with asking(target, timeout) as client:
        previous = Admin(client, timeout=timeout).set_default_version(model, version)
    if as_json:
        record = {"model": model, "previous_default_version": previous, "default_version": version}
        say(json.dumps(record, ensure_ascii=False))
    else:
        _tell_default(model, version, previous)


def _tell_default(model: str, version: str, previous: str) -> None:
    before = f", before {visible(previous)}" if previous not in {"", version} else ""
    say(f"{visible(model)}: the default is {visible(version)}{before}")


def _row(version: ModelVersion) -> tuple[str, ...]:
    shown = {name: visible(str(value)) for name, value in asdict(version).items()}
    standing = shown["state"] + (", default" if version.is_default else "")
    engine = f"{shown['backend']} {shown['precision']} on {shown['device']}"
    return (
        shown["model"],
        shown["version"],
        standing,
        engine if version.backend else "",
        shown["reason"],
    )


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    """Columns as wide as their longest word; the last one, a sentence, as it comes."""
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(pad, row, widths)).rstrip() for row in rows]
