"""Commands that the lab adds to ``sswim``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DataFolder = Annotated[
    Path | None,
    typer.Option(help="The only folder to search for data sets; by default SSWIM_DATA and others."),
]
Repeats = Annotated[
    int | None,
    typer.Option(help="Splits per data set; by default 10 up to 10,000 rows, 3 for more."),
]
AddToResults = Annotated[
    bool,
    typer.Option("--resume/--no-resume", help="Add to existing results, or stop if there are any."),
]
Retry = Annotated[bool, typer.Option("--retry", help="Repeat fits that failed before.")]
Workers = Annotated[int, typer.Option(help="Number of processes.")]
