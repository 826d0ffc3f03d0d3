"""The folders in which data sets are searched for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sswim_lab.datasets.folders
from sswim_lab.datasets.folders import FOLDER_VARIABLE, cache_folder, checkout_folder, find, folders


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Make the folders in the order in which they are searched; each has the data set."""
    made = [tmp_path / name for name in ("variable", "beside", "cache")]
    for place in made:
        place.mkdir()
        (place / "airfoil.parquet").touch()
    monkeypatch.setenv(FOLDER_VARIABLE, str(made[0]))
    monkeypatch.setattr(sswim_lab.datasets.folders, "checkout_folder", lambda: made[1])
    monkeypatch.setattr(sswim_lab.datasets.folders, "cache_folder", lambda: made[2])
    return made


def test_folders_are_searched_in_order(places: list[Path]) -> None:
    assert folders() == places
    for place in places:
        assert find("airfoil") == place / "airfoil.parquet"
        (place / "airfoil.parquet").unlink()
    assert find("airfoil") is None


def test_a_given_folder_is_the_only_one(places: list[Path], tmp_path: Path) -> None:
    assert find("airfoil", places[2]) == places[2] / "airfoil.parquet"
    assert find("airfoil", str(tmp_path)) is None


@pytest.mark.parametrize("value", ["", None])
def test_the_variable_need_not_be_set(
    places: list[Path], monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    if value is None:
        monkeypatch.delenv(FOLDER_VARIABLE)
    else:
        monkeypatch.setenv(FOLDER_VARIABLE, value)
    assert folders() == places[1:]


def test_an_unknown_name_raises_an_error() -> None:
    with pytest.raises(ValueError, match="A data set must be one of"):
        find("boston")


def test_the_checkout_is_that_of_the_source(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = tmp_path / "checkout" / "lab" / "src" / "sswim_lab" / "datasets" / "folders.py"
    monkeypatch.setattr(sswim_lab.datasets.folders, "__file__", str(module))
    assert checkout_folder() == tmp_path / "shared" / "data"
    installed = tmp_path / "python" / "site-packages" / "sswim_lab" / "datasets" / "folders.py"
    monkeypatch.setattr(sswim_lab.datasets.folders, "__file__", str(installed))
    assert checkout_folder() is None


def test_the_cache_is_that_of_pooch(monkeypatch: pytest.MonkeyPatch) -> None:
    pooch = pytest.importorskip("pooch")
    assert cache_folder() == pooch.os_cache("sswim")
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    assert cache_folder() is None


def test_the_package_runs_without_pooch(tmp_path: Path) -> None:
    script = """
import sys
sys.modules["pooch"] = None  # an import of it fails
import sswim.cli.app, sswim_lab.datasets
assert sswim_lab.datasets.find("airfoil", sys.argv[1]) is None
assert "requests" not in sys.modules and "sswim_lab.datasets.file_download" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
