"""The command ``sswim``.

Commands import the modules that do the work inside their functions, so that ``sswim --help`` and
``sswim --version`` are fast. Another distribution adds a command by an entry point of the group
``sswim.commands``: the name of the command, and its function or its Typer app, which is imported
when the command is used.
"""

from __future__ import annotations

import functools
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from sswim.base.version import __version__
from sswim.cli.console import messages, output, say, user_errors
from sswim.cli.evaluate import calibrate, evaluate, monitor
from sswim.cli.fit import fit
from sswim.cli.grid import grid
from sswim.cli.info import info
from sswim.cli.predict import predict
from sswim.cli.report import report

GROUP = "sswim.commands"
"""Entry points of commands that other distributions add."""
LAB_COMMANDS = ("bench", "datasets", "reproduce")
"""Commands of the distribution sswim-lab."""


class Commands(TyperGroup):
    """The commands of the library and, by their entry points, those of other distributions."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*super().list_commands(ctx), *sorted(_plug_ins())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command to list; one of another distribution is not imported for that."""
        plug_in = _plug_ins().get(cmd_name)
        if plug_in is None or cmd_name in self.commands:
            return super().get_command(ctx, cmd_name)
        origin = "another distribution" if plug_in.dist is None else plug_in.dist.name
        return TyperCommand(cmd_name, help=f"A command of {origin}.")

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command to run; one of another distribution is imported."""
        name = args[0]
        if name not in self.commands:
            plug_in = _plug_ins().get(name)
            if plug_in is not None:
                self.add_command(_load(plug_in), name)
            elif name in LAB_COMMANDS:
                say(messages, f"sswim {name} is part of sswim-lab: pip install sswim-lab")
                raise typer.Exit(2)
        return super().resolve_command(ctx, args)


@functools.cache
def _plug_ins() -> dict[str, Any]:
    """Return the entry points of commands that other distributions add, by name."""
    own = {command.name for command in app.registered_commands}
    points = entry_points(group=GROUP)
    return {point.name: point for point in points if point.name not in own}


def _load(plug_in: Any) -> Any:
    """Import a command of another distribution; where that fails, print a line and exit."""
    try:
        command = plug_in.load()
    except Exception as error:  # whatever another distribution raises
        say(messages, f"Cannot load the command {plug_in.name!r} from {plug_in.value}: {error!r}.")
        raise typer.Exit(1) from error
    if not isinstance(command, typer.Typer):
        function, command = command, typer.Typer(add_completion=False)
        command.command()(function)
    return typer.main.get_command(command)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def main(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Nonstationary probabilistic regression on tables."""
    if version:
        typer.echo(__version__)
        raise typer.Exit


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture and the page.")] = Path("demo"),
) -> None:
    """Show what warps add on a signal with steps, a wave and a chirp."""
    from sswim.cli.demo import run_demo

    with user_errors():
        out.mkdir(parents=True, exist_ok=True)
        run_demo(out, output)


for command in (fit, predict, evaluate, report, calibrate, monitor, grid, info, demo):
    app.command(command.__name__)(command)
