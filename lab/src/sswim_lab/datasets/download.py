"""The folders in which the files of data sets are, and downloads into the user's cache."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path, PurePosixPath

import pyarrow as pa
from platformdirs import user_cache_path
from rich.console import Console

from sswim.base.validation import UserError
from sswim.tables import write_table
from sswim_lab.datasets.catalogue import DataSet, Original, data_set
from sswim_lab.datasets.originals import DAMAGE_ERRORS

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


def cache_folder() -> Path:
    """Return the folder for downloads, the user's cache."""
    return user_cache_path("sswim")


def download(name: str) -> Path:
    """Download the original file of a data set, and write it to the cache as Parquet.

    An original file that a user has put into the cache is not downloaded again.

    Returns:
        The path of the Parquet file.
    """
    wanted = data_set(name)
    folder = cache_folder()
    original = wanted.original
    if original is None:
        raise FileNotFoundError(
            f"{name} is not available, and there is no public file to make it from. "
            f"{_manual_advice(name, folder)} See {wanted.page}."
        )
    folder.mkdir(parents=True, exist_ok=True)
    given = folder / f"{name}{PurePosixPath(original.url).suffix}"
    if given.is_file():
        table = _parse(wanted, original, given)
    else:
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            fetched = Path(temporary) / given.name
            _download(name, original.url, fetched, folder)
            table = _parse(wanted, original, fetched)
    path = folder / f"{name}.parquet"
    write_table(table, path)
    return path


def _download(name: str, url: str, file: Path, folder: Path) -> None:
    """Download a file; raise an error with advice if that fails."""
    import pooch  # noqa: PLC0415 (it is slow to import, and most data sets are there)

    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("WARNING")  # else it advises users to write the file's hash into the source
    try:
        with Console(stderr=True).status(f"Downloading {url}"):
            pooch.retrieve(url, None, file.name, file.parent)
    except OSError as error:
        raise FileNotFoundError(
            f"{name} is not available and could not be downloaded from {url}: {error}\n"
            f"Download that file by other means and put it into {str(folder)!r} under the name "
            f"{file.name}. {_manual_advice(name, folder)}"
        ) from error
    finally:
        logger.setLevel(level)


def _parse(wanted: DataSet, original: Original, file: Path) -> pa.Table:
    """Read an original file; raise UserError unless it is the expected one."""
    rule = f"{file.name} must be the original of {wanted.name}, from {original.url}"
    try:
        table = original.parse(file)
        prepared = wanted.prepare(table)
    except (OSError, ValueError, KeyError, pa.ArrowException, *DAMAGE_ERRORS) as error:
        raise UserError(f"{rule}. It cannot be read as such: {error}") from error
    shape = prepared.num_rows, prepared.num_columns - 1
    if shape != (wanted.n_rows, wanted.n_inputs):
        raise UserError(
            f"{rule}, with {wanted.n_rows} rows of {wanted.n_inputs} inputs. "
            f"Got {shape[0]} rows of {shape[1]}."
        )
    return table


def _manual_advice(name: str, folder: Path) -> str:
    """Return advice where to put a Parquet file that the user has."""
    return (
        f"If you have {name}.parquet, put it into {str(folder)!r}, or into the folder that the "
        f"environment variable {FOLDER_VARIABLE} names."
    )
