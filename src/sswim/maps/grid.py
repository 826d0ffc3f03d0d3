"""Predictions on the cells of a map."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64

from sswim.base.errors import UserError
from sswim.base.version import __version__
from sswim.estimator.progress import prediction_progress
from sswim.estimator.regressor import SSWIMRegressor
from sswim.maps.extra import import_extra
from sswim.maps.grid_columns import GridColumns, Name, grid_columns, model_schema
from sswim.maps.region import Cells, make_cells, make_region
from sswim.maps.seen_region import seen_region
from sswim.tables.geo_frame import GEOGRAPHIC_NAMES, PLANE_NAMES

if TYPE_CHECKING:
    import xarray

CHUNK_ROWS = 65_536
"""Number of cells that are predicted together."""

RESERVED = frozenset({"mean", "std", "quantiles", "quantile", "spatial_ref"})
"""Names of the variables and further coordinates of a map, which no column may have."""

POINT_NAMES = (GEOGRAPHIC_NAMES, PLANE_NAMES)
"""Names of the coordinates that points of a GeoDataFrame become."""

DEGREES = "EPSG:4326"
"""Coordinate reference system of longitude and latitude, for models on the sphere."""


def predict_grid(
    regressor: SSWIMRegressor,
    region: Sequence[int | float] | None = None,
    spacing: int | float | None = None,
    shape: tuple[int, int] | None = None,
    *,
    coordinates: Sequence[Name] | None = None,
    at: Mapping[Any, Any] | None = None,
    quantiles: Sequence[float] = (0.05, 0.5, 0.95),
    crs: Any = None,
    include_noise: bool = True,
    say: Callable[[str], object] | None = None,
) -> xarray.Dataset:
    """Predict a map: mean, standard deviation and quantiles in the middle of every cell.

    Args:
        regressor: A fitted estimator with one target.
        region: Outer edges of the cells: west, east, south, north. In degrees it may cross the date
            line: (170, -170, …) or (170, 190, …). By default the rectangle around the rows, where
            the model keeps them.
        spacing: Side of a cell, adjusted so that a whole number of cells fits.
        shape: Numbers of cells from south to north and from west to east, instead of ``spacing``.
        coordinates: The two columns that vary over the map, east and north. By default those that
            the model has on the sphere, or all columns if there are two.
        at: Values of the other columns, such as a date.
        quantiles: Probabilities of the quantiles; there may be none.
        crs: Coordinate reference system, such as "EPSG:3035". By default that of the GeoDataFrame
            that the model was fitted to, or EPSG:4326 for a model on the sphere.
        include_noise: Whether spread and quantiles are those of a new observation, or of the
            function.
        say: Prints lines of progress.

    Returns:
        A dataset with the variables ``mean``, ``std`` and, if there are any, ``quantiles``, which
        has a dimension ``quantile``. Its coordinates have the names of the columns.
    """
    columns = grid_columns(regressor, coordinates, at)
    _require_free(columns)
    if regressor.n_targets_ > 1:
        raise UserError(
            f"A map shows one target. Got a model of {regressor.n_targets_}; fit one model for "
            "each target."
        )
    levels = _checked_levels(quantiles)
    if region is None:
        chosen = seen_region(regressor, columns)
    else:
        chosen = make_region(region, geographic=columns.geographic)
    cells = make_cells(chosen, spacing, shape)
    # Before a long prediction, not after it.
    import_extra("xarray")
    import_extra("rioxarray")
    crs = _checked_crs(_default_crs(regressor, columns) if crs is None else crs)
    values = _predict_cells(regressor, cells, columns, levels, include_noise, say)
    return _as_dataset(values, cells, columns, levels, crs, include_noise)


def _predict_cells(
    regressor: SSWIMRegressor,
    cells: Cells,
    columns: GridColumns,
    levels: list[float],
    include_noise: bool,
    say: Callable[[str], object] | None,
) -> Float64[np.ndarray, "bands rows columns"]:
    """Return mean, standard deviation and quantiles of all cells, chunk by chunk."""
    values = np.empty((2 + len(levels), len(cells)))
    advance = prediction_progress(say or _ignore, len(cells))
    for start in range(0, len(cells), CHUNK_ROWS):
        points = cells.points(start, start + CHUNK_ROWS)
        mixture = regressor.predict_distribution(columns.rows(points))
        spread = mixture if include_noise else mixture.without_noise()
        part = values[:, start : start + len(points)]
        part[0] = mixture.mean[:, 0].cpu().numpy()
        part[1] = spread.observation_variance[:, 0].sqrt().cpu().numpy()
        if levels:
            part[2:] = spread.quantiles(levels)[:, 0].T.cpu().numpy()
        advance(len(points))
    return values.reshape(-1, len(cells.y), len(cells.x))


def _as_dataset(
    values: Float64[np.ndarray, "bands rows columns"],
    cells: Cells,
    columns: GridColumns,
    levels: list[float],
    crs: Any,
    include_noise: bool,
) -> xarray.Dataset:
    """Return predictions with their coordinates and reference system, by the CF conventions."""
    xarray = import_extra("xarray")
    east, north = columns.labels
    of = "a new observation" if include_noise else "the function"
    plane = (north, east)
    variables: dict[str, Any] = {
        "mean": (plane, values[0], {"long_name": "mean"}),
        "std": (plane, values[1], {"long_name": f"standard deviation of {of}"}),
    }
    axes: dict[str, Any] = {
        east: (east, cells.x, {"axis": "X", "long_name": east}),
        north: (north, cells.y, {"axis": "Y", "long_name": north}),
    }
    if levels:
        attributes = {"long_name": f"quantiles of {of}"}
        variables["quantiles"] = (("quantile", *plane), values[2:], attributes)
        axes["quantile"] = ("quantile", levels, {"long_name": "probability"})
    data = xarray.Dataset(
        variables,
        axes | columns.fixed_coordinates,
        {"Conventions": "CF-1.8", "source": f"sswim {__version__}"},
    )
    data = data.rio.set_spatial_dims(x_dim=east, y_dim=north)
    # This also writes names and units of the coordinates.
    return data if crs is None else data.rio.write_crs(crs).rio.write_coordinate_system()


def _default_crs(regressor: SSWIMRegressor, columns: GridColumns) -> str | None:
    """Return the reference system of a model's points, or the one of degrees on the sphere."""
    schema = model_schema(regressor)
    known = None if schema is None or columns.labels not in POINT_NAMES else schema.crs
    return known or (DEGREES if columns.geographic else None)


def _checked_crs(crs: Any) -> Any:
    """Return a coordinate reference system, or None; raise an error if it is unknown."""
    if crs is None:
        return None
    pyproj = import_extra("pyproj")
    try:
        return pyproj.CRS.from_user_input(crs)
    except pyproj.exceptions.CRSError as error:
        raise UserError(
            f"crs must be a coordinate reference system, such as 'EPSG:4326'. Got {crs!r}: {error}"
        ) from error


def _require_free(columns: GridColumns) -> None:
    """Raise an error if columns of the model have names that the map needs."""
    if taken := [name for name in (*columns.labels, *columns.fixed) if name in RESERVED]:
        raise UserError(
            f"The columns of a map must not be called {', '.join(sorted(RESERVED))}. Got "
            f"{taken[0]!r}; rename it and fit again."
        )


def _checked_levels(quantiles: Sequence[float]) -> list[float]:
    """Return probabilities, which must lie between 0 and 1 and be different."""
    levels = [float(level) for level in quantiles]
    if len(set(levels)) != len(levels) or not all(0 < level < 1 for level in levels):
        raise UserError(
            f"quantiles must be different numbers between 0 and 1. Got {tuple(quantiles)}."
        )
    return levels


def _ignore(text: str) -> None:
    """Print nothing."""
