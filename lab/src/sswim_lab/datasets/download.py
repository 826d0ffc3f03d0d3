"""Downloads of data sets from their public sources, stored as Parquet in the user's cache."""

from __future__ import annotations

import tempfile
from pathlib import Path, PurePosixPath

import pyarrow as pa

from sswim.base.validation import UserError
from sswim.tables import write_table
from sswim_lab.datasets import folders
from sswim_lab.datasets.archive_files import DAMAGE_ERRORS
from sswim_lab.datasets.catalogue import DataSet, Original, data_set


def download(name: str) -> Path:
    """Download the original file of a data set, and write it to the cache as Parquet.

    An original file that a user has put into the cache is not downloaded again.

    Returns:
        The path of the Parquet file.
    """
    wanted = data_set(name)
    folder = folders.cache_folder()
    original = wanted.original
    if original is None:
        raise FileNotFoundError(
            f"{name} is not available, and there is no public file to make it from. "
            f"{_manual_advice(name, folder)} See {wanted.page}."
        )
    if folder is None:
        raise _missing_package_error(name)
    folder.mkdir(parents=True, exist_ok=True)
    given = folder / f"{name}{PurePosixPath(original.url).suffix}"
    if given.is_file():
        table = _parse(wanted, original, given)
    else:
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            fetched = Path(temporary) / given.name
            _fetch(name, original.url, fetched, folder)
            table = _parse(wanted, original, fetched)
    path = folder / f"{name}.parquet"
    write_table(table, path)
    return path


def _fetch(name: str, url: str, file: Path, folder: Path) -> None:
    try:
        from sswim_lab.datasets.file_download import (  # noqa: PLC0415 (pooch may be missing)
            download_file,
        )
    except ImportError as error:
        raise _missing_package_error(name) from error
    try:
        download_file(url, file)
    except OSError as error:
        raise FileNotFoundError(
            f"{name} is not available and could not be downloaded from {url}: {error}\n"
            f"Download that file by other means and put it into {str(folder)!r} under the name "
            f"{file.name}. {_manual_advice(name, folder)}"
        ) from error


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


def _missing_package_error(name: str) -> FileNotFoundError:
    return FileNotFoundError(
        f"{name} is not available, and downloads need the package pooch, which is not installed. "
        f"{_manual_advice(name, None)}"
    )


def _manual_advice(name: str, folder: Path | None) -> str:
    """Return advice where to put a Parquet file that the user has."""
    places = f"the folder that the environment variable {folders.FOLDER_VARIABLE} names"
    if folder is not None:
        places = f"{str(folder)!r}, or into {places}"
    return f"If you have {name}.parquet, put it into {places}."
