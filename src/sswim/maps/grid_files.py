"""Files of maps, netCDF and GeoTIFF, and the packages of the extra ``maps`` that maps need."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from sswim.base.validation import UserError
from sswim.files.output_files import atomic_write

if TYPE_CHECKING:
    import xarray

_NETCDF = (".nc", ".nc4")
_GEOTIFF = (".tif", ".tiff")


def write_grid(grid: xarray.Dataset, path: str | os.PathLike[str]) -> None:
    """Write a map of ``predict_grid``; on failure an older file is kept.

    A netCDF file holds the dataset as it is. A GeoTIFF file has the north up, and one band for each
    of mean, standard deviation and quantiles, described by these names.

    Args:
        grid: The map.
        path: The file; its suffix, .nc or .tif, decides the format.
    """
    suffix = require_grid_suffix(path)
    with atomic_write(path) as temporary:
        if suffix in _NETCDF:
            import_extra("h5netcdf")
            # By way of memory: HDF5 crashes where a disk is full.
            whole = io.BytesIO()
            grid.to_netcdf(whole, engine="h5netcdf")
            temporary.write_bytes(whole.getvalue())
        else:
            _write_geotiff(grid, temporary)


def _write_geotiff(grid: xarray.Dataset, path: Path) -> None:
    xarray = import_extra("xarray")
    import_extra("rioxarray")
    names, layers = ["mean", "std"], [grid["mean"], grid["std"]]
    for level in grid["quantile"].values if "quantile" in grid.dims else ():
        names.append(f"quantile {level:g}")
        layers.append(grid["quantiles"].sel(quantile=level).drop_vars("quantile"))
    bands = xarray.concat(layers, dim="band", coords="minimal", compat="override")
    north, east = grid["mean"].dims
    bands = bands.sortby(str(north), ascending=False)
    bands.attrs = {"long_name": tuple(names)}  # rioxarray's descriptions of bands
    # GDAL chooses the format by the suffix, which a temporary file does not have, and may write
    # files beside the one it is told to.
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        file = Path(folder) / "map.tif"
        bands.rio.set_spatial_dims(x_dim=east, y_dim=north).rio.write_nodata(
            float("nan")
        ).rio.to_raster(file, driver="GTiff", compress="deflate", BIGTIFF="IF_SAFER")
        shutil.move(file, path)


def require_grid_suffix(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a map's file in lower case; raise an error if there is no such format.

    Call it before a long prediction, not after.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (*_NETCDF, *_GEOTIFF):
        known = ", ".join((*_GEOTIFF, *_NETCDF))
        raise UserError(f"A map's file name must end in {known}. Got {os.fspath(path)!r}.")
    return suffix


def import_extra(name: str) -> ModuleType:
    """Import a package of the extra, or say how to install it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UserError(
            f"Maps need the package {name}, which cannot be imported: {error}. Install the extra: "
            'pip install "sswim[maps]".'
        ) from error
