"""The folders of data sets, and downloads from a local server instead of the public sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import sswim_lab.datasets.download
from lab_builders.datasets import STORED, publish, serve, stored_table
from sswim_lab.datasets import load, split
from sswim_lab.datasets.catalogue import DATA_SETS
from sswim_lab.datasets.download import (
    FOLDER_VARIABLE,
    checkout_folder,
    find,
    folders,
)

# Pooch does not close the connection of an error response.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


DAMAGES = ("a page", "cut short", "emptied")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty cache, and hide all other folders."""
    folder = tmp_path / "home" / "cache"
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.setattr(sswim_lab.datasets.download, "checkout_folder", lambda: None)
    monkeypatch.setattr(sswim_lab.datasets.download, "cache_folder", lambda: folder)
    return folder


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Serve the folder ``public``, and return its address."""
    with serve(tmp_path / "public") as address:
        yield address


def offer(monkeypatch: pytest.MonkeyPatch, name: str, url: str, n_rows: int = 6) -> None:
    """Give a data set another address, and the number of rows of the small tables."""
    wanted = DATA_SETS[name]
    assert wanted.original is not None
    n_rows = 4 if wanted.n_left_out else n_rows
    small = replace(wanted, original=replace(wanted.original, url=url), n_rows=n_rows)
    monkeypatch.setitem(DATA_SETS, name, small)


def offer_nowhere(monkeypatch: pytest.MonkeyPatch, cache: Path, name: str, **others: int) -> Path:
    """Put a public file into the cache by hand; at its address nothing listens."""
    cache.mkdir(parents=True)
    file = publish(name, stored_table(name), cache)
    offer(monkeypatch, name, f"http://127.0.0.1:9/{file.name}", **others)
    return file


@pytest.mark.parametrize("name", ["elevators", "airfoil", "concrete"])
def test_a_download_is_kept(
    tmp_path: Path, cache: Path, server: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    file = publish(name, stored_table(name), tmp_path / "public")
    offer(monkeypatch, name, f"{server}/{file.name}")
    first = load(name)
    file.unlink()
    second = load(name)
    assert first.x.shape == (DATA_SETS[name].n_rows, DATA_SETS[name].n_inputs)
    assert np.array_equal(first.x, second.x)
    assert np.array_equal(first.y, second.y)
    assert [path.name for path in cache.iterdir()] == [f"{name}.parquet"]
    assert pq.read_table(cache / f"{name}.parquet").column_names == list(STORED[name])


def test_an_available_data_set_is_not_downloaded(tmp_path: Path, cache: Path) -> None:
    pq.write_table(stored_table("airfoil"), tmp_path / "airfoil.parquet")
    assert len(split("airfoil", 0, tmp_path).train_y) == 4
    with pytest.raises(FileNotFoundError, match=r"song\.parquet does not exist.*SSWIM_DATA"):
        load("song", tmp_path)
    assert not cache.exists()


def test_a_failed_download_says_what_to_do(
    cache: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, "song", f"{server}/gone.zip")
    with pytest.raises(FileNotFoundError) as caught:
        load("song")
    for text in (
        f"song is not available and could not be downloaded from {server}/gone.zip: 404",
        f"put it into {str(cache)!r} under the name song.zip",
        f"If you have song.parquet, put it into {str(cache)!r}",
        FOLDER_VARIABLE,
    ):
        assert text in str(caught.value)
    assert list(cache.iterdir()) == []
    offer(monkeypatch, "creep", "http://127.0.0.1:9/creep.tar")  # where nothing listens
    with pytest.raises(FileNotFoundError, match=r"could not be downloaded from http://127\.0"):
        load("creep")


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *product(("airfoil", "elevators", "creep", "nycflights13"), DAMAGES),
        ("airfoil", "other rows"),
    ],
)
def test_a_file_that_is_not_the_original_raises_an_error(
    cache: Path, monkeypatch: pytest.MonkeyPatch, name: str, damage: str
) -> None:
    file = offer_nowhere(monkeypatch, cache, name, n_rows=1503 if damage == "other rows" else 6)
    content = file.read_bytes()
    cut = content[: 2 * len(content) // 3 if name != "creep" else 700]
    contents = {"a page": b"<html>Not here</html>", "cut short": cut, "emptied": b""}
    file.write_bytes(contents.get(damage, content))
    with pytest.raises(ValueError, match=f"{file.name} must be the original of {name}, from http"):
        load(name)
    assert list(cache.iterdir()) == [file]


def test_a_set_without_a_public_file_raises_an_error(cache: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no public file to make it from") as e:
        load("prism_elevation")
    assert f"put it into {str(cache)!r}" in str(e.value)
    assert "cran.r-project.org" in str(e.value)


def test_folders_are_searched_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [tmp_path / name for name in ("variable", "beside", "cache")]
    for place in places:
        place.mkdir()
        (place / "airfoil.parquet").touch()
    monkeypatch.setenv(FOLDER_VARIABLE, str(places[0]))
    monkeypatch.setattr(sswim_lab.datasets.download, "checkout_folder", lambda: places[1])
    monkeypatch.setattr(sswim_lab.datasets.download, "cache_folder", lambda: places[2])
    assert folders() == places
    assert find("airfoil", places[2]) == places[2] / "airfoil.parquet"  # the only one
    assert find("airfoil", str(tmp_path)) is None
    for place in places:
        assert find("airfoil") == place / "airfoil.parquet"
        (place / "airfoil.parquet").unlink()
    assert find("airfoil") is None
    monkeypatch.setenv(FOLDER_VARIABLE, "")
    assert folders() == places[1:]
    monkeypatch.delenv(FOLDER_VARIABLE)
    assert folders() == places[1:]


def test_the_checkout_is_that_of_the_source(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = tmp_path / "checkout" / "lab" / "src" / "sswim_lab" / "datasets" / "folders.py"
    monkeypatch.setattr(sswim_lab.datasets.download, "__file__", str(module))
    assert checkout_folder() == tmp_path / "shared" / "data"
    installed = tmp_path / "python" / "site-packages" / "sswim_lab" / "datasets" / "folders.py"
    monkeypatch.setattr(sswim_lab.datasets.download, "__file__", str(installed))
    assert checkout_folder() is None
