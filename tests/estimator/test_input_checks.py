from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from builders.estimators import (
    Array,
    few_noise_steps,  # noqa: F401 (for every test here)
    make_rows,
    small,
    with_value,
)

from sswim.estimator.input_checks import as_numpy, check_inputs, check_rows

X, Y = make_rows(20)


def test_checked_rows_hold_the_numbers_that_were_given() -> None:
    deviation, weight = np.array([0.1, 0.2]), np.arange(20.0)
    estimator = small()
    rows = check_rows(estimator, X, Y, weight, deviation, dtype=torch.float32, reset=True)
    assert estimator.n_features_in_ == 2
    assert rows.inputs.mean.dtype == torch.float32
    assert np.allclose(rows.inputs.mean, X, rtol=1e-6)
    assert np.array_equal(rows.targets[:, 0], Y)
    assert rows.weight is not None
    assert np.array_equal(rows.weight, weight)
    assert rows.inputs.input_variance is not None
    assert np.allclose(rows.inputs.input_variance, np.tile(deviation**2, (20, 1)))


@pytest.mark.parametrize("X_std", [0.3, np.array([0.1, 0.2]), np.full((20, 2), 0.5)])
def test_a_standard_deviation_may_be_one_number_or_one_for_each_column_or_value(
    X_std: float | Array,
) -> None:
    estimator = small()
    check_rows(estimator, X, Y, dtype=torch.float64, reset=True)
    inputs = check_inputs(estimator, X, X_std, dtype=torch.float64)
    expected = np.broadcast_to(np.square(X_std), (20, 2))
    assert inputs.input_variance is not None
    assert np.array_equal(inputs.input_variance, expected)
    assert check_inputs(estimator, X, dtype=torch.float64).input_variance is None


def test_tensors_become_arrays() -> None:
    tensor = torch.tensor([1.0, 2.0], requires_grad=True)
    assert np.array_equal(as_numpy(tensor), [1.0, 2.0])
    frame = pd.DataFrame(X)
    assert as_numpy(frame) is frame


def test_every_kind_of_table_gives_the_same() -> None:
    x, y = make_rows()
    expected = small().fit(x, y).predict(x)
    names = ["east", "north"]
    frames = [pd.DataFrame(x, columns=names), pl.DataFrame(x, schema=names)]
    for frame in frames:
        regressor = small().fit(frame, y)
        assert list(regressor.feature_names_in_) == names
        assert np.allclose(regressor.predict(frame), expected)
        with pytest.raises(ValueError, match="feature names should match"):
            regressor.predict(frame[["north", "east"]])
    tensors = small().fit(torch.from_numpy(x), torch.from_numpy(y))
    assert np.array_equal(tensors.predict(torch.from_numpy(x)), expected)
    assert np.array_equal(small().fit(x.tolist(), y.tolist()).predict(x), expected)


BAD_FITS: dict[str, tuple[dict[str, Any], str]] = {
    "NaN in X": ({"X": with_value(X, np.nan)}, "Input X contains NaN"),
    "infinity in X": ({"X": with_value(X, np.inf)}, "Input X contains infinity"),
    "NaN in y": ({"y": with_value(Y, np.nan)}, "Input y contains NaN"),
    "infinity in y": ({"y": with_value(Y, -np.inf)}, "Input y contains infinity"),
    "flat X": ({"X": X[:, 0]}, "Expected 2D array"),
    "three-dimensional X": ({"X": X[None]}, "dim <= 2 is required"),
    "differing row counts": ({"y": Y[:5]}, "inconsistent numbers of samples: \\[20, 5\\]"),
    "no rows": ({"X": X[:0], "y": Y[:0]}, "minimum of 2 is required"),
    "no columns": ({"X": X[:, :0]}, "0 feature"),
    "one row": ({"X": X[:1], "y": Y[:1]}, "minimum of 2 is required"),
    "text": ({"X": np.array([["a", "b"]] * 20)}, "could not convert string to float"),
    "text objects": ({"X": np.array([["a", 1.0]] * 20, dtype=object)}, "could not convert"),
    "negative weights": ({"sample_weight": -np.ones(20)}, "non-negative"),
    "weights of another length": ({"sample_weight": np.ones(3)}, "sample_weight.shape"),
    "X_std of another shape": ({"X_std": np.ones(3)}, "X_std must be a number, or have shape"),
    "negative X_std": ({"X_std": -1.0}, "none negative"),
    "NaN in X_std": ({"X_std": np.nan}, "no NaN"),
}


@pytest.mark.parametrize("name", BAD_FITS)
def test_bad_rows_are_refused_and_nothing_is_lost(name: str) -> None:
    regressor = small().fit(X, Y)
    before = regressor.predict(X)
    arguments, message = BAD_FITS[name]
    with pytest.raises(ValueError, match=message):
        regressor.fit(**{"X": X, "y": Y, **arguments})
    assert np.array_equal(regressor.predict(X), before)
