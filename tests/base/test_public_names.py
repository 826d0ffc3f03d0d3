"""The public names of the package, and what importing them loads."""

from __future__ import annotations

from importlib import import_module

import pytest
from builders.commands import run_python

import sswim


def modules_after(statement: str) -> set[str]:
    """Return the modules that a statement loads in a fresh process."""
    ended = run_python("-c", f"import sys\n{statement}\nprint(*sys.modules)")
    assert ended.returncode == 0, ended.stderr
    return set(ended.stdout.split())


def test_public_names_are_listed_once_and_can_be_imported() -> None:
    assert len(set(sswim.__all__)) == len(sswim.__all__)
    for name in sswim.__all__:
        assert getattr(getattr(sswim, name), "__name__", name) == name
        assert name in dir(sswim)


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


def test_imports_load_what_they_need() -> None:
    assert not modules_after("import sswim") & {"torch", "numpy", "sklearn"}
    # Where pandas is installed, scikit-learn loads it, and pandas loads pyarrow.
    loaded = modules_after("sys.modules['pandas'] = None\nfrom sswim import SSWIMRegressor")
    assert "sswim.estimator.regressor" in loaded
    assert not loaded & {"pyarrow", "matplotlib", "sswim_lab", "sswim.plotting", "sswim.tables"}
