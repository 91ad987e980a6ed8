"""The entry point: one file a subcommand, imported when it is called and not before."""

import sys
from importlib import import_module
from importlib.metadata import version
from typing import Any

try:
    import click
except ModuleNotFoundError:
    sys.exit("The heedful command needs click: pip install 'heedful[serve]'")

COMMANDS = ("train", "evaluate", "export", "tune", "serve", "classify", "attend", "info", "models")


class LazyCommands(click.Group):
    """Finds cli/NAME.py's function NAME, so that `heedful classify` does not wait for torch."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"cli.{cmd_name}"), cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            raise click.ClickException(_advice(error)) from None


def _advice(error: ModuleNotFoundError) -> str:
    return (
        f"{error.name} is not installed. Install what the command needs: "
        "'heedful[serve]' for the server, 'heedful[train]' for train, evaluate and export, "
        "'heedful[pictures]' for pictures"
    )


@click.group(
    cls=LazyCommands,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "HEEDFUL"},
)
@click.version_option(version("heedful"), prog_name="heedful")
def main() -> None:
    """Train, export and serve encoder classifiers, and see what they attend to."""


if __name__ == "__main__":
    main()
