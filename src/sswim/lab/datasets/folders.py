"""Where the files of the data sets are."""

from __future__ import annotations

import os
from pathlib import Path

from sswim.lab.datasets.catalogue import data_set

FOLDER_VARIABLE = "SSWIM_DATA"
"""The environment variable that says where the Parquet files are."""


def find(name: str, folder: str | os.PathLike[str] | None = None) -> Path | None:
    """The Parquet file of a data set that is at hand; nothing is downloaded.

    Args:
        name: One of ``DATA_SETS``.
        folder: The only folder to look in; by default all of ``folders()``.
    """
    file = f"{data_set(name).name}.parquet"
    places = folders() if folder is None else [Path(folder)]
    return next((place / file for place in places if (place / file).is_file()), None)


def folders() -> list[Path]:
    """Where data sets are looked for, in this order.

    The folder that SSWIM_DATA names, a folder shared/data beside the checkout, the user's cache.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    places = [Path(named) if named else None, beside_checkout(), cache()]
    return [place for place in places if place is not None]


def beside_checkout() -> Path | None:
    """The folder shared/data beside the folder of the source; an installed package has none."""
    source = Path(__file__).resolve().parents[3]
    return source.parent.parent / "shared" / "data" if source.name == "src" else None


def cache() -> Path | None:
    """Where downloads are kept, as pooch has it; it comes with platformdirs."""
    try:
        from platformdirs import user_cache_path  # noqa: PLC0415 (the package runs without)
    except ImportError:
        return None
    return user_cache_path("sswim")
