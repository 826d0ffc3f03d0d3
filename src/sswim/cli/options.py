"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TablePath = Annotated[
    Path,
    typer.Argument(
        help="Parquet, CSV (also .csv.gz), Arrow or Feather file; folder of Parquet or CSV files."
    ),
]
ModelPath = Annotated[Path, typer.Argument(help="Model file that `sswim fit` wrote.")]

Coverage = Annotated[float, typer.Option(help="Coverage of the intervals, between 0 and 1.")]
DropMissing = Annotated[bool, typer.Option(help="Leave out rows with missing values.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or another PyTorch device.")]
Memory = Annotated[
    str,
    typer.Option(help="Memory for rows per process; larger tables are read again in every pass."),
]
Timeout = Annotated[
    float, typer.Option(help="Seconds to wait for another process before it counts as lost.")
]

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
