"""Data sets from their public sources, kept as Parquet in the user's cache."""

from __future__ import annotations

import tempfile
from pathlib import Path, PurePosixPath

import pyarrow as pa

from sswim.lab.datasets import folders
from sswim.lab.datasets.archives import DAMAGE
from sswim.lab.datasets.catalogue import DataSet, Original, data_set
from sswim.tables.table_io import write_table


def download(name: str) -> Path:
    """Fetch the original of a data set, and write it to the cache as Parquet.

    An original that lies in the cache already, put there by hand, is not fetched.
    """
    wanted = data_set(name)
    folder = folders.cache()
    original = wanted.original
    if original is None:
        raise FileNotFoundError(
            f"{name} is not at hand, and there is no file from which it can be made. "
            f"{_by_hand(name, folder)} See {wanted.page}."
        )
    if folder is None:
        raise _without_pooch(name)
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
        from sswim.lab.datasets.transfer import retrieve  # noqa: PLC0415 (pooch may be missing)
    except ImportError as error:
        raise _without_pooch(name) from error
    try:
        retrieve(url, file)
    except OSError as error:
        raise FileNotFoundError(
            f"{name} is not at hand and could not be downloaded from {url}: {error}\n"
            f"Fetch that file by other means and put it into {str(folder)!r} under the name "
            f"{file.name}. {_by_hand(name, folder)}"
        ) from error


def _parse(wanted: DataSet, original: Original, file: Path) -> pa.Table:
    what = f"{file.name} must be the original of {wanted.name}, from {original.url}"
    try:
        table = original.parse(file)
        prepared = wanted.prepare(table)
    except (OSError, ValueError, KeyError, pa.ArrowException, *DAMAGE) as error:
        raise ValueError(f"{what}. It cannot be read as such: {error}") from error
    shape = prepared.num_rows, prepared.num_columns - 1
    if shape != (wanted.n_rows, wanted.n_inputs):
        raise ValueError(
            f"{what}, with {wanted.n_rows} rows of {wanted.n_inputs} inputs. "
            f"Got {shape[0]} rows of {shape[1]}."
        )
    return table


def _without_pooch(name: str) -> FileNotFoundError:
    return FileNotFoundError(
        f"{name} is not at hand, and downloads need the packages pooch and rich, of which one is "
        f"missing. {_by_hand(name, None)}"
    )


def _by_hand(name: str, folder: Path | None) -> str:
    places = f"the folder that the environment variable {folders.FOLDER_VARIABLE} names"
    if folder is not None:
        places = f"{str(folder)!r}, or into {places}"
    return f"If you have {name}.parquet, put it into {places}."
