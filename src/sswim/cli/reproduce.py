"""The command ``sswim reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sswim.cli.bench import progress
from sswim.cli.console import messages, output, say, user_errors


def reproduce(
    name: Annotated[str, typer.Argument(help="An experiment, or all; without, a list.")] = "",
    sets: Annotated[str, typer.Option(help="Data sets, with commas between.")] = "",
    methods: Annotated[str, typer.Option(help="Methods, with commas between.")] = "",
    repeats: Annotated[
        int | None, typer.Option(help="By default 10 up to 10,000 rows, 3 above.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, …")] = "auto",
    data: Annotated[
        Path | None, typer.Option(help="The only folder of the data sets; or set SSWIM_DATA.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder for all results, results/paper by default.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes.")] = 1,
    resume: Annotated[bool, typer.Option(help="Add to results that are there.")] = True,
    retry: Annotated[bool, typer.Option("--retry", help="Repeat fits that failed.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version, which shows that all works.")
    ] = False,
) -> None:
    """Make the paper's tables and figures again, beside the published numbers."""
    from sswim.lab.bench.runner import names  # noqa: PLC0415 (other commands start sooner)
    from sswim.lab.paper import command  # noqa: PLC0415
    from sswim.lab.paper.request import Request  # noqa: PLC0415

    if not name:
        for line in command.listing():
            say(output, line)
        return
    request = Request(
        out=out or command.default_out(quick),
        notify=lambda text: say(messages, text),
        sets=names(sets),
        methods=names(methods),
        repeats=repeats,
        device=device,
        folder=None if data is None else str(data),
        resume=resume,
        retry=retry,
        workers=workers,
        quick=quick,
        progress=progress,
    )
    try:
        with user_errors():
            code = command.reproduce(name, request)
    except KeyboardInterrupt as error:
        say(messages, command.interrupted(request))
        raise typer.Exit(command.INTERRUPTED) from error
    raise typer.Exit(code)
