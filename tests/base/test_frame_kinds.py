from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from builders.commands import run_python
from scipy import sparse

from sswim.base.validation import is_frame, is_geo_frame, is_missing, is_pandas

GEO = geopandas.GeoDataFrame({"a": [1]}, geometry=geopandas.points_from_xy([0], [0]))


class OtherFrame:
    """A frame of another library, by Arrow's interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.table({"a": [1]}).__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "frame",
    [
        *(pd.DataFrame({"a": [1]}), pl.DataFrame({"a": [1]}), pa.table({"a": [1]}), GEO),
        *(pa.record_batch({"a": [1]}), OtherFrame()),
    ],
    ids=lambda frame: type(frame).__name__,
)
def test_frames_of_every_library_are_known(frame: Any) -> None:
    assert is_frame(frame)
    assert is_pandas(frame) == isinstance(frame, pd.DataFrame)
    assert is_geo_frame(frame) == isinstance(frame, geopandas.GeoDataFrame)


@pytest.mark.parametrize(
    "value",
    [
        *(np.zeros((2, 2)), torch.zeros(2, 2), [[1.0]], "path.csv", None, 3, {"a": [1]}),
        *(pd.Series([1]), pl.Series([1]), sparse.csr_array(np.eye(2)), pa.array([1])),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_things_are_no_frames(value: Any) -> None:
    assert not is_frame(value)
    assert not is_pandas(value)
    assert not is_geo_frame(value)


def test_no_library_of_frames_is_imported_to_find_out() -> None:
    program = (
        "import sys\n"
        "from sswim.base.validation import is_frame, is_geo_frame\n"
        "assert not is_frame([[1.0]]) and not is_geo_frame([[1.0]])\n"
        "print(sorted({'pandas', 'polars', 'pyarrow', 'geopandas'} & set(sys.modules)))"
    )
    result = run_python("-c", program)
    assert result.stdout.strip() == "[]", result.stderr
    assert "pandas" in sys.modules  # here it is


@pytest.mark.parametrize(
    "value", [None, float("nan"), np.nan, np.float64("nan"), np.float32("nan"), pd.NA, pd.NaT]
)
def test_missing_values_of_every_library_are_known(value: Any) -> None:
    assert is_missing(value)


@pytest.mark.parametrize(
    "value", [0, 0.0, "", "nan", np.inf, False, Decimal(0), [], np.float32(1), pd.Timestamp(0)]
)
def test_other_values_are_not_missing(value: Any) -> None:
    assert not is_missing(value)


@pytest.mark.parametrize("value", [np.datetime64("NaT"), np.timedelta64("NaT"), Decimal("NaN")])
def test_missing_times_and_decimals_are_known(value: Any) -> None:
    assert is_missing(value)
