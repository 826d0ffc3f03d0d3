"""The command ``sswim``.

Commands import the modules that do the work inside their functions, so that ``sswim --help`` and
``sswim --version`` are fast.
"""

from __future__ import annotations

from typing import Annotated

import typer
from sswim_lab.commands.bench import app as bench
from sswim_lab.commands.datasets import datasets
from sswim_lab.commands.reproduce import reproduce

from sswim.base.version import __version__
from sswim.cli.demo import demo
from sswim.cli.evaluate import calibrate, evaluate
from sswim.cli.fit import fit
from sswim.cli.grid import grid
from sswim.cli.info import info
from sswim.cli.monitor import monitor
from sswim.cli.predict import predict
from sswim.cli.report import report

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (
    *(fit, predict, evaluate, report, calibrate, monitor, grid, info),
    *(demo, datasets, reproduce),
):
    app.command()(command)
app.add_typer(bench, name="bench")


@app.callback(invoke_without_command=True)
def main(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Nonstationary probabilistic regression on tables."""
    if version:
        typer.echo(__version__)
        raise typer.Exit
