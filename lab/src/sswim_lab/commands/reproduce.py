"""The command ``sswim reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sswim.cli.console import messages, output, say, user_errors
from sswim.cli.options import Device
from sswim_lab.commands import AddToResults, DataFolder, Repeats, Retry, Workers
from sswim_lab.commands.bench import show_fits


def reproduce(
    name: Annotated[
        str, typer.Argument(help="Experiment to run, or all; without a name, list them.")
    ] = "",
    sets: Annotated[
        str, typer.Option(help="Data sets, separated by commas; default: the experiment's.")
    ] = "",
    methods: Annotated[
        str, typer.Option(help="Methods, separated by commas; default: the experiment's.")
    ] = "",
    repeats: Repeats = None,
    device: Device = "auto",
    data: DataFolder = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for all results; default: results/paper.")
    ] = None,
    workers: Workers = 1,
    resume: AddToResults = True,
    retry: Retry = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run a small version, which shows that all works.")
    ] = False,
) -> None:
    """Reproduce the paper's tables and figures, beside the published numbers."""
    from sswim_lab.bench.runner import split_names
    from sswim_lab.paper import command
    from sswim_lab.paper.experiment import Request

    if not name:
        for line in command.listing():
            say(output, line)
        return
    request = Request(
        out=out or command.default_out(quick),
        notify=lambda text: say(messages, text),
        sets=split_names(sets),
        methods=split_names(methods),
        repeats=repeats,
        device=device,
        folder=None if data is None else str(data),
        resume=resume,
        retry=retry,
        workers=workers,
        quick=quick,
        progress=show_fits,
    )
    try:
        with user_errors():
            code = command.reproduce(name, request)
    except KeyboardInterrupt as error:
        say(messages, command.interruption_message(request))
        raise typer.Exit(command.INTERRUPTED) from error
    raise typer.Exit(code)
