"""Arguments and options that several commands have, and what the commands make of them.

Names of coordinates and the options of CSV files become arguments of the library; a model file
becomes an estimator with the schema of the tables that it reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from sswim.base.validation import UserError
from sswim.files.output_files import check_output_file, require_replaceable

if TYPE_CHECKING:
    from sswim.distributed.processes import Processes
    from sswim.estimator.base import BaseRegressor
    from sswim.tables import CsvOptions, Schema

SEPARATOR_WORDS = {"tab": "\t", "\\t": "\t", "blank": " ", "blanks": " "}
"""Words for separators that are hard to type."""

TablePath = Annotated[
    Path,
    Argument(
        help="Parquet, CSV (also .csv.gz), Arrow or Feather file; folder of Parquet or CSV files."
    ),
]
ModelPath = Annotated[Path, Argument(help="Model file that `sswim fit` wrote.")]

Level = Annotated[float, Option(help="Probability of the intervals, between 0 and 1.")]
DropMissing = Annotated[
    bool, Option(help="Leave out rows with missing values; by default these are imputed.")
]
DropMissingTarget = Annotated[
    bool, Option(help="Leave out rows without a target; by default these are an error.")
]
Force = Annotated[bool, Option("--force", help="Replace an existing file that is no sswim model.")]
Device = Annotated[str, Option(help="auto, cpu, cuda or another PyTorch device.")]
Memory = Annotated[
    str,
    Option(help="Memory for rows per process; larger tables are read again in every pass."),
]
Timeout = Annotated[
    float, Option(help="Seconds to wait for another process before it counts as lost.")
]

Coordinates = Annotated[
    str | None,
    Option(help="The two columns of the map, east and north, such as lon,lat."),
]

Separator = Annotated[
    str | None,
    Option(help="CSV: character between cells, or tab or blanks; found if not given."),
]
Decimal = Annotated[
    str | None, Option(help="CSV: decimal mark, a point or a comma; found if not given.")
]
Encoding = Annotated[
    str | None, Option(help="CSV: encoding, such as utf-8 or cp1252; found if not given.")
]
Header = Annotated[
    bool | None,
    Option("--header/--no-header", help="CSV: whether the first line has the names."),
]
KeepIndex = Annotated[
    bool, Option("--keep-index", help="CSV: use an unnamed column that counts the rows.")
]
KeepText = Annotated[
    list[str] | None,
    Option(help="Column to use as text though it looks like numbers or dates; repeatable."),
]


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
    from sswim.tables import CsvOptions

    character = None if separator is None else SEPARATOR_WORDS.get(separator, separator)
    return CsvOptions(character, decimal, encoding, header, keep_index)


def join_launched(timeout: float, device: str = "auto") -> AbstractContextManager[Processes]:
    """Join the processes that torchrun started together with this one.

    Args:
        timeout: Seconds to wait for another process before it counts as lost.
        device: Name of the device that computes.
    """
    from sswim.distributed.processes import join_processes, local_device, resolve_device

    return join_processes(local_device(resolve_device(device)), timedelta(seconds=timeout))


def load_model(path: Path) -> tuple[BaseRegressor, Schema]:
    """Read a model file, and how the model reads tables."""
    from sswim.estimator import load

    regressor = load(path)
    return regressor, table_schema(regressor)


def check_model_output(out: Path, inputs: Iterable[Path], *, force: bool) -> None:
    """Raise before work if a model could not be written, or would replace something else.

    Args:
        out: The model file to write.
        inputs: Files and folders that the command reads.
        force: Whether a file of another kind may be replaced.
    """
    from sswim.estimator.model_file import MODEL

    check_output_file(out, inputs)
    if not force:
        require_replaceable(out, f'{{"__metadata__":{{"{MODEL.key}"'.encode(), MODEL.key)


def table_schema(regressor: BaseRegressor) -> Schema:
    """Return how a model reads tables.

    A model that was fitted in Python on named columns reads numbers by these names.
    """
    from sswim.tables import NumberColumn, Schema, TableError

    if regressor.n_targets_ > 1:
        raise TableError(
            f"The command line predicts one target. Got a model of {regressor.n_targets_}; "
            "use it in Python, or fit one model for each target."
        )
    if regressor._reader.schema is not None:
        return regressor._reader.schema
    names = getattr(regressor, "feature_names_in_", None)
    if names is None:
        raise TableError(
            "The model must know the names of its columns. This one was fitted on arrays without "
            "names; fit it on a data frame, or with `sswim fit`."
        )
    return Schema("", tuple(NumberColumn(str(name)) for name in names))
