from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from builders.estimators import make_rows, small

from sswim.base.errors import UserError
from sswim.estimator.fit_source import as_source
from sswim.rows import ArraySource
from sswim.rows.memory_source import MemorySource
from sswim.tables.table_source import TableSource

X, Y = make_rows(20)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    pd.DataFrame({"east": X[:, 0], "north": X[:, 1], "height": Y}).to_csv(path, index=False)
    return path


def test_arrays_become_rows_in_memory() -> None:
    source = as_source(small(), X, Y, dtype=torch.float64)
    assert isinstance(source, MemorySource)
    assert source.in_memory
    assert source.flat_targets
    assert source.names is None
    assert np.array_equal(np.sort(source.rows.targets[:, 0]), np.sort(Y))
    assert not as_source(small(), X, Y[:, None], dtype=torch.float64).flat_targets


def test_the_columns_of_a_frame_are_the_names_of_the_inputs() -> None:
    frame = pd.DataFrame(X, columns=["east", "north"])
    assert as_source(small(), frame, Y, dtype=torch.float64).names == ("east", "north")


def test_a_path_becomes_a_source_of_the_tables_rows(table: Path) -> None:
    for path in (table, str(table)):
        source = as_source(small(), path, "height", dtype=torch.float64)
        assert isinstance(source, TableSource)
        assert source.names == ("east", "north")
        chunks = list(source.chunks())
        assert np.allclose(np.concatenate([chunk.inputs for chunk in chunks]), X)
        assert np.allclose(np.concatenate([chunk.targets for chunk in chunks])[:, 0], Y)


def test_a_source_is_used_as_it_is() -> None:
    source = ArraySource(X, Y)
    assert as_source(small(), source, None, dtype=torch.float64) is source


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sample_weight": np.ones(20)}, "sample_weight and X_std belong to arrays"),
        ({"X_std": 0.1}, "sample_weight and X_std belong to arrays"),
        ({"y": Y}, "A source has its own targets"),
        ({"X": "table.csv"}, "target of a table must be the name of a column. Got None"),
    ],
)
def test_arguments_that_exclude_each_other_are_an_error(
    arguments: dict[str, Any], message: str
) -> None:
    given = {"X": ArraySource(X, Y), "y": None} | arguments
    with pytest.raises(UserError, match=message):
        as_source(small(), **given, dtype=torch.float64)
