"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sswim.base.errors import UserError

if TYPE_CHECKING:
    from sswim.tables.csv_options import CsvOptions

SEPARATOR_WORDS = {"tab": "\t", "\\t": "\t", "blank": " ", "blanks": " "}
"""Words for separators that are hard to type."""

TablePath = Annotated[
    Path,
    typer.Argument(
        help="Parquet, CSV (also .csv.gz), Arrow or Feather file; folder of Parquet or CSV files."
    ),
]
ModelPath = Annotated[Path, typer.Argument(help="Model file that `sswim fit` wrote.")]

Coverage = Annotated[float, typer.Option(help="Coverage of the intervals, between 0 and 1.")]
DropMissing = Annotated[
    bool, typer.Option(help="Leave out rows with missing values; by default these are imputed.")
]
DropMissingTarget = Annotated[
    bool, typer.Option(help="Leave out rows without a target; by default these are an error.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace an existing file that is no sswim model.")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or another PyTorch device.")]
Memory = Annotated[
    str,
    typer.Option(help="Memory for rows per process; larger tables are read again in every pass."),
]
Timeout = Annotated[
    float, typer.Option(help="Seconds to wait for another process before it counts as lost.")
]

Coordinates = Annotated[
    str | None,
    typer.Option(help="The two columns of the map, east and north, such as lon,lat."),
]

Separator = Annotated[
    str | None,
    typer.Option(help="CSV: character between cells, or tab or blanks; found if not given."),
]
Decimal = Annotated[
    str | None, typer.Option(help="CSV: decimal mark, a point or a comma; found if not given.")
]
Encoding = Annotated[
    str | None, typer.Option(help="CSV: encoding, such as utf-8 or cp1252; found if not given.")
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="CSV: whether the first line has the names."),
]
KeepIndex = Annotated[
    bool, typer.Option("--keep-index", help="CSV: use an unnamed column that counts the rows.")
]
KeepText = Annotated[
    list[str] | None,
    typer.Option(help="Column to use as text though it looks like numbers or dates; repeatable."),
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


def split_coordinates(names: str | None) -> tuple[str, str] | None:
    """Return the two names of ``Coordinates``."""
    if names is None:
        return None
    parts = tuple(name.strip() for name in names.split(","))
    if len(parts) != 2 or not all(parts):
        raise UserError(f"--coordinates must be two names, such as lon,lat. Got {names!r}.")
    return parts[0], parts[1]


def csv_options(
    separator: str | None,
    decimal: str | None,
    encoding: str | None,
    header: bool | None,
    keep_index: bool = False,
) -> CsvOptions:
    """Return how CSV files are read, by the options of that name."""
    from sswim.tables.csv_options import CsvOptions

    character = None if separator is None else SEPARATOR_WORDS.get(separator, separator)
    return CsvOptions(character, decimal, encoding, header, keep_index)
