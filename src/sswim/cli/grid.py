"""The command ``sswim grid``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from sswim.base.validation import UserError
from sswim.cli import options
from sswim.cli.console import messages, output, say, user_errors
from sswim.files.output_files import check_output_file


def grid(
    model: options.ModelPath,
    out: Annotated[Path, Option(help="Map to write: a .tif or .nc file.")],
    region: Annotated[
        tuple[float, float, float, float] | None,
        Option(
            help="West, east, south and north edge; by default those of the rows in the model.",
            metavar="W E S N",
        ),
    ] = None,
    spacing: Annotated[float | None, Option(help="Side of a cell.")] = None,
    shape: Annotated[
        tuple[int, int] | None,
        Option(help="Numbers of cells in each direction.", metavar="ROWS COLUMNS"),
    ] = None,
    coordinates: options.Coordinates = None,
    at: Annotated[
        list[str] | None,
        Option(help="Value of another column; repeatable.", metavar="COLUMN=VALUE"),
    ] = None,
    quantile: Annotated[
        list[float] | None,
        Option(help="Probability of a quantile; repeatable; by default 0.05, 0.5, 0.95."),
    ] = None,
    crs: Annotated[
        str | None, Option(help="Reference system, such as EPSG:3035; for degrees EPSG:4326.")
    ] = None,
) -> None:
    """Predict a map, and write it as GeoTIFF or netCDF.

    The map has the mean, the standard deviation and quantiles of a new observation in each cell.
    """
    with user_errors():
        from sswim.estimator import load
        from sswim.maps import predict_grid, require_grid_suffix, write_grid

        require_grid_suffix(out)
        check_output_file(out, [model])
        cells = predict_grid(
            load(model),
            region,
            spacing,
            shape,
            coordinates=options.split_coordinates(coordinates),
            at=dict(map(_split_value, at or [])),
            quantiles=quantile or (0.05, 0.5, 0.95),
            crs=crs,
            say=lambda text: say(messages, text),
        )
        write_grid(cells, out)
        n_rows, n_columns = cells["mean"].shape
        say(output, f"Predicted {n_rows} × {n_columns} cells and wrote {out}.")


def _split_value(text: str) -> tuple[str, str]:
    """Return the column and the value of COLUMN=VALUE."""
    name, separator, value = text.partition("=")
    if not separator:
        raise UserError(f"--at must be COLUMN=VALUE. Got {text!r}.")
    return name, value
