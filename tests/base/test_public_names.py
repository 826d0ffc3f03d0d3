"""The public names of the package, and what importing them loads."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module

import pytest

import sswim


def modules_after(statement: str) -> set[str]:
    """Return the modules that a statement loads in a fresh process."""
    script = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(result.stdout))


@pytest.mark.parametrize("name", sswim.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    value = getattr(sswim, name)
    assert value is not None
    assert name in dir(sswim)
    if isinstance(value, type):
        assert value.__name__ == name


def test_public_names_are_listed_once() -> None:
    assert len(set(sswim.__all__)) == len(sswim.__all__)


@pytest.mark.parametrize(
    ("room", "name"), [(room, name) for room in sswim._MOVED for name in sswim._MOVED[room]]
)
def test_names_that_moved_say_where_they_are(room: str, name: str) -> None:
    with pytest.raises(AttributeError, match=f"{name} has moved: from {room} import {name}"):
        getattr(sswim, name)
    assert hasattr(import_module(room), name)


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        sswim.nothing  # noqa: B018


def test_the_estimator_loads_neither_tables_nor_figures_nor_the_lab() -> None:
    # Where pandas is installed, scikit-learn loads it, and pandas loads pyarrow.
    without_pandas = "sys.modules['pandas'] = None"
    loaded = modules_after(f"{without_pandas}\nfrom sswim import SSWIMRegressor")
    assert "sswim.estimator.regressor" in loaded
    assert not loaded & {"pyarrow", "matplotlib", "sswim_lab", "sswim.plotting", "sswim.tables"}


def test_the_package_alone_loads_almost_nothing() -> None:
    loaded = modules_after("import sswim")
    assert not loaded & {"torch", "numpy", "sklearn"}
