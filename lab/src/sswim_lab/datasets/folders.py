"""The folders in which data sets are searched for."""

from __future__ import annotations

import os
from pathlib import Path

from sswim_lab.datasets.catalogue import data_set

FOLDER_VARIABLE = "SSWIM_DATA"
"""Environment variable that names the folder of the Parquet files."""


def find(name: str, folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the Parquet file of a data set, or None if there is none; nothing is downloaded.

    Args:
        name: One of ``DATA_SETS``.
        folder: The only folder to search; by default all of ``folders()``.
    """
    file = f"{data_set(name).name}.parquet"
    places = folders() if folder is None else [Path(folder)]
    return next((place / file for place in places if (place / file).is_file()), None)


def folders() -> list[Path]:
    """Return the folders to search, in this order.

    The folder that SSWIM_DATA names, the folder shared/data beside the checkout, the user's cache.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    places = [Path(named) if named else None, checkout_folder(), cache_folder()]
    return [place for place in places if place is not None]


def checkout_folder() -> Path | None:
    """Return the folder shared/data beside the checkout, or None for an installed package."""
    lab = Path(__file__).resolve().parents[3]
    return lab.parents[1] / "shared" / "data" if lab.name == "lab" else None


def cache_folder() -> Path | None:
    """Return pooch's cache folder for downloads, or None without platformdirs, which it needs."""
    try:
        from platformdirs import user_cache_path  # noqa: PLC0415 (only data sets need it)
    except ImportError:
        return None
    return user_cache_path("sswim")
