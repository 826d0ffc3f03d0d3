"""Maps: predictions in the middles of the cells of a rectangle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64

from sswim.base.validation import UserError
from sswim.base.version import __version__
from sswim.estimator.base import BaseRegressor
from sswim.estimator.progress import prediction_progress
from sswim.maps.grid_columns import GridColumns, Name, grid_columns, require_cells
from sswim.maps.grid_files import import_extra
from sswim.tables import GEOGRAPHIC_NAMES, PLANE_NAMES

if TYPE_CHECKING:
    import xarray

Region = tuple[float, float, float, float]
"""A rectangle of the plane, or of longitudes and latitudes: west, east, south and north edge."""

CHUNK_ROWS = 65_536
"""Number of cells that are predicted together."""

_MAX_CELLS = 500_000_000
"""Largest number of cells of a map: a slip in the spacing must not fill the memory."""

_RESERVED = frozenset({"mean", "std", "quantiles", "quantile", "spatial_ref"})
"""Names of the variables and further coordinates of a map, which no column may have."""

_DEGREES = "EPSG:4326"
"""Coordinate reference system of longitude and latitude, for models on the sphere."""

_MAX_ARC = 350.0
"""Degrees of longitude from which on a region goes all around the sphere."""


def predict_grid(
    regressor: BaseRegressor,
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
    if taken := [name for name in (*columns.labels, *columns.fixed) if name in _RESERVED]:
        raise UserError(
            f"The columns of a map must not be called {', '.join(sorted(_RESERVED))}. Got "
            f"{taken[0]!r}; rename it and fit again."
        )
    if regressor.n_targets_ > 1:
        raise UserError(
            f"A map shows one target. Got a model of {regressor.n_targets_}; fit one model for "
            "each target."
        )
    levels = [float(level) for level in quantiles]
    if len(set(levels)) != len(levels) or not all(0 < level < 1 for level in levels):
        raise UserError(
            f"quantiles must be different numbers between 0 and 1. Got {tuple(quantiles)}."
        )
    edges = _seen_region(regressor, columns) if region is None else _checked_region(region, columns)
    x, y = _middles_of_cells(edges, spacing, shape)
    # Before a long prediction, not after it.
    xarray = import_extra("xarray")
    import_extra("rioxarray")
    crs = _reference_system(regressor, columns, crs)

    # Cells are numbered row by row from the south-west.
    n_cells = len(x) * len(y)
    flat = np.empty((2 + len(levels), n_cells))
    advance = prediction_progress(say, n_cells)
    for start in range(0, n_cells, CHUNK_ROWS):
        row, column = np.divmod(np.arange(start, min(start + CHUNK_ROWS, n_cells)), len(x))
        points = np.stack([x[column], y[row]], axis=-1)
        mixture = regressor.predict_distribution(columns.rows(points))
        spread = mixture if include_noise else mixture.without_noise()
        part = flat[:, start : start + len(points)]
        part[0] = mixture.mean[:, 0].cpu().numpy()
        part[1] = spread.observation_variance[:, 0].sqrt().cpu().numpy()
        if levels:
            part[2:] = spread.quantiles(levels)[:, 0].T.cpu().numpy()
        advance(len(points))
    values = flat.reshape(-1, len(y), len(x))

    # Names and units follow the CF conventions.
    east, north = columns.labels
    of = "a new observation" if include_noise else "the function"
    plane = (north, east)
    variables: dict[str, Any] = {
        "mean": (plane, values[0], {"long_name": "mean"}),
        "std": (plane, values[1], {"long_name": f"standard deviation of {of}"}),
    }
    axes: dict[str, Any] = {
        east: (east, x, {"axis": "X", "long_name": east}),
        north: (north, y, {"axis": "Y", "long_name": north}),
    }
    if levels:
        attributes = {"long_name": f"quantiles of {of}"}
        variables["quantiles"] = (("quantile", *plane), values[2:], attributes)
        axes["quantile"] = ("quantile", levels, {"long_name": "probability"})
    source = {"Conventions": "CF-1.8", "source": f"sswim {__version__}"}
    data = xarray.Dataset(variables, axes | columns.fixed_coordinates, source)
    data = data.rio.set_spatial_dims(x_dim=east, y_dim=north)
    # This also writes names and units of the coordinates.
    return data if crs is None else data.rio.write_crs(crs).rio.write_coordinate_system()


def _reference_system(regressor: BaseRegressor, columns: GridColumns, crs: Any) -> Any:
    """Return a reference system: by default that of the points, or degrees on the sphere."""
    if crs is None:
        schema = regressor._reader.schema
        if schema is not None and columns.labels in (GEOGRAPHIC_NAMES, PLANE_NAMES):
            crs = schema.crs
        crs = crs or (_DEGREES if columns.geographic else None)
    if crs is None:
        return None
    pyproj = import_extra("pyproj")
    try:
        return pyproj.CRS.from_user_input(crs)
    except pyproj.exceptions.CRSError as error:
        raise UserError(
            f"crs must be a coordinate reference system, such as 'EPSG:4326'. Got {crs!r}: {error}"
        ) from error


def _checked_region(values: Sequence[int | float], columns: GridColumns) -> Region:
    """Check the edges of a region: west, east, south, north.

    A region in degrees may cross the date line, with a west edge beyond the east one (170, −170) or
    an east edge beyond 180 (170, 190).
    """
    if len(values) != 4 or not np.isfinite(np.asarray(values, dtype=np.float64)).all():
        raise UserError(
            f"region must be four finite numbers: west, east, south, north. Got {values!r}."
        )
    west, east, south, north = map(float, values)
    if columns.geographic and east < west:
        east += 360
    if west >= east or south >= north:
        raise UserError(
            "region must be west, east, south, north, with west below east and south below north. "
            f"Got {values!r}."
        )
    if columns.geographic and (east - west > 360 or south < -90 or north > 90):
        raise UserError(
            "A region in degrees must span at most 360° of longitude, and latitudes from −90° to "
            f"90°. Got {values!r}."
        )
    return west, east, south, north


def _seen_region(regressor: BaseRegressor, columns: GridColumns) -> Region:
    """Return the rectangle around the rows that a model keeps.

    Args:
        regressor: A fitted estimator.
        columns: How the cells of a map become its rows.
    """
    held = [member.held_rows for member in regressor.members_ if member.held_rows is not None]
    if not any(map(len, held)):
        raise UserError(
            "A map needs its region: west, east, south, north. Got none, and a model that keeps "
            "no rows from which it could follow; give region, or --region."
        )
    scaling, standardised = regressor.scaling_, next(filter(len, held)).inputs.mean
    inputs = standardised.double() * scaling.input_spread + scaling.input_mean
    seen = inputs.cpu().numpy()
    schema = regressor._reader.schema
    if columns.geographic:
        assert schema is not None
        assert schema.sphere is not None
        # The rows of this matrix are the images of the three axes, and it is orthogonal.
        axes = schema.sphere.encode(np.array([0.0, 90.0, 0.0]), np.array([0.0, 0.0, 90.0]))
        x, y, z = (seen[:, :3] @ axes.T).T
        longitude = np.degrees(np.arctan2(y, x))
        latitude = np.degrees(np.arctan2(z, np.hypot(x, y)))
        return *_arc(longitude), float(latitude.min()), float(latitude.max())

    def place(name: Name) -> int:
        if schema is None:
            return int(name)
        return schema.feature_names.index(schema.names[name] if isinstance(name, int) else name)

    x, y = (seen[:, place(name)] for name in columns.coordinates)
    return float(x.min()), float(x.max()), float(y.min()), float(y.max())


def _arc(longitude: Float64[np.ndarray, " N"]) -> tuple[float, float]:
    """Return the ends of the shortest arc that holds all longitudes."""
    places = np.sort(np.mod(longitude, 360.0))
    gaps = np.diff(places, append=places[0] + 360.0)
    widest = int(np.argmax(gaps))
    if 360.0 - gaps[widest] > _MAX_ARC:
        return -180.0, 180.0
    west = float(places[(widest + 1) % len(places)])
    west = west - 360.0 if west > 180.0 else west
    return west, west + 360.0 - float(gaps[widest])


def _middles_of_cells(
    region: Region, spacing: int | float | None, shape: tuple[int, int] | None
) -> tuple[Float64[np.ndarray, " columns"], Float64[np.ndarray, " rows"]]:
    """Return the middles of the cells of a region, from west to east and from south to north.

    Args:
        region: Outer edges of the cells.
        spacing: Side of a cell, adjusted so that a whole number of cells fits.
        shape: Numbers of cells from south to north and from west to east, instead of ``spacing``.
    """
    west, east, south, north = region
    require_cells("Cells", spacing, shape, least=2)
    if spacing is not None:
        rows = round((north - south) / spacing)
        columns = round((east - west) / spacing)
        if min(rows, columns) < 2:
            raise UserError(
                "A map must have at least two cells in each direction. Got a spacing of "
                f"{spacing:g} for a region of {east - west:g} by "
                f"{north - south:g}; choose a smaller one."
            )
    else:
        assert shape is not None
        rows, columns = shape
    if rows * columns > _MAX_CELLS:
        raise UserError(
            f"A map can have at most {_MAX_CELLS:,} cells. Got {rows:,} × {columns:,}; choose a "
            "larger spacing, or make the map in parts."
        )
    x = west + (east - west) * (np.arange(columns) + 0.5) / columns
    y = south + (north - south) * (np.arange(rows) + 0.5) / rows
    return x, y
