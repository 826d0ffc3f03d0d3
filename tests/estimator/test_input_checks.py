from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from builders.estimators import (
    Array,
    few_noise_steps,  # noqa: F401 (for every test here)
    make_rows,
    small,
    with_value,
)

from sswim.base.validation import UserError
from sswim.estimator.inputs import (
    as_numpy,
    as_source,
    check_targets,
    deviation_of,
    require_known_targets,
)
from sswim.rows import MemorySource

X, Y = make_rows(20)


def test_checked_rows_hold_the_numbers_that_were_given() -> None:
    deviation, weight = np.array([0.1, 0.2]), np.arange(20.0)
    estimator = small()
    source = as_source(estimator, X, Y, weight, deviation, dtype=torch.float32)
    assert isinstance(source, MemorySource)
    rows = source.rows
    assert not hasattr(estimator, "n_features_in_")  # until the fit is complete
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
    estimator = small().fit(X, Y)
    inputs = estimator._reader.read(estimator, X, X_std)
    expected = np.broadcast_to(np.square(X_std), (20, 2))
    assert inputs.input_variance is not None
    assert np.array_equal(inputs.input_variance, expected)
    assert estimator._reader.read(estimator, X).input_variance is None


def test_tensors_become_arrays() -> None:
    tensor = torch.tensor([1.0, 2.0], requires_grad=True)
    assert np.array_equal(as_numpy(tensor), [1.0, 2.0])
    frame = pd.DataFrame(X)
    assert as_numpy(frame) is frame


def test_every_kind_of_table_gives_the_same() -> None:
    x, y = make_rows()
    expected = small().fit(x, y).predict(x)
    names = ["east", "north"]
    arrow = pa.table(list(x.T), names=names)
    frames = [pd.DataFrame(x, columns=names), pl.DataFrame(x, schema=names), arrow]
    for frame in frames:
        regressor = small().fit(frame, y)
        assert list(regressor.feature_names_in_) == names
        for again in frames:  # of any library, in any order of columns
            assert np.array_equal(regressor.predict(again), expected)
        assert np.array_equal(regressor.predict(arrow.select(["north", "east"])), expected)
        with pytest.raises(ValueError, match=r"must have columns 'north'. .* it has 'east'"):
            regressor.predict(arrow.select(["east"]))
    tensors = small().fit(torch.from_numpy(x), torch.from_numpy(y))
    assert np.array_equal(tensors.predict(torch.from_numpy(x)), expected)
    assert np.array_equal(small().fit(x.tolist(), y.tolist()).predict(x), expected)


BAD_FITS: dict[str, tuple[dict[str, Any], str]] = {
    "infinity in X": ({"X": with_value(X, np.inf)}, "Input X contains infinity"),
    "NaN in y": ({"y": with_value(Y, np.nan)}, "must have a target. Got 1 of 20 missing"),
    "None in y": ({"y": [None, *Y[1:]]}, "must have a target. Got 1 of 20 missing"),
    "no y": ({"y": None}, "requires y to be passed, but the target y is None"),
    "text in y": ({"y": ["a", *Y[1:]]}, "y must be an array of numbers"),
    "infinity in y": ({"y": with_value(Y, -np.inf)}, "Input y contains infinity"),
    "flat X": ({"X": X[:, 0]}, "Expected 2D array"),
    "three-dimensional X": ({"X": X[None]}, "dim <= 2 is required"),
    "differing row counts": ({"y": Y[:5]}, "inconsistent numbers of samples: \\[20, 5\\]"),
    "no rows": ({"X": X[:0], "y": Y[:0]}, "minimum of . is required"),
    "no columns": ({"X": X[:, :0]}, "0 feature"),
    "one row": ({"X": X[:1], "y": Y[:1]}, "minimum of 2 is required"),
    "complex X": ({"X": 1j * X}, "Complex data not supported"),
    "things in X": ({"X": np.array([[object(), 1.0]] * 20)}, "Got column 'x0' of type object"),
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


TENSORS: dict[str, tuple[torch.Tensor, str]] = {
    "meta": (torch.ones(3, 2, device="meta"), "on the meta device, which has no values"),
    "nested": (
        torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged),
        "a nested tensor; use",
    ),
    "sparse": (torch.ones(3, 2).to_sparse(), "layout torch.sparse_coo; use tensor.to_dense"),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_without_plain_numbers_are_refused(name: str) -> None:
    tensor, message = TENSORS[name]
    with pytest.raises(UserError, match=message):
        as_numpy(tensor)
    with pytest.raises(UserError, match=message):
        deviation_of(tensor, (3, 2))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int8])
def test_tensors_of_any_kind_of_numbers_are_read(dtype: torch.dtype) -> None:
    assert as_numpy(torch.ones(2, dtype=dtype)).tolist() == [1.0, 1.0]


def test_tensors_that_are_views_with_another_sign_are_read() -> None:
    complex_ = torch.complex(torch.ones(2), torch.ones(2)).conj()
    assert as_numpy(complex_).tolist() == [1 - 1j, 1 - 1j]
    assert as_numpy(complex_.imag).tolist() == [-1.0, -1.0]


def test_masked_cells_are_missing() -> None:
    mask = np.zeros(X.shape, dtype=bool)
    assert as_numpy(np.ma.masked_array(X, mask)).tolist() == X.tolist()
    mask[3, 1] = True
    holes = np.where(mask, np.nan, X)
    assert np.array_equal(as_numpy(np.ma.masked_array(X, mask)), holes, equal_nan=True)
    whole = np.ma.masked_array(np.arange(3), [False, True, False])
    assert np.array_equal(as_numpy(whole), [0.0, np.nan, 2.0], equal_nan=True)
    assert as_numpy(whole.astype(object)).tolist() == [0, None, 2]
    assert as_numpy(whole.astype(str)).tolist() == ["0", None, "2"]
    assert np.isnat(as_numpy(whole.astype("M8[s]"))).tolist() == [False, True, False]
    expected = small().fit(holes, Y).predict(holes)
    masked = np.ma.masked_array(X, mask)
    assert np.array_equal(small().fit(masked, Y).predict(masked), expected)


def test_masked_targets_and_weights_are_refused() -> None:
    masked = np.ma.masked_array(Y, np.arange(20) == 2)
    for inputs in (X, pd.DataFrame(X, columns=["a", "b"])):
        with pytest.raises(UserError, match="Got 1 of 20 missing"):
            small().fit(inputs, masked)
        with pytest.raises(UserError, match="Got masked values in sample_weight"):
            small().fit(inputs, Y, np.ma.masked_array(np.ones(20), masked.mask))


def test_dates_are_not_taken_as_numbers() -> None:
    days = np.full(20, np.datetime64("2020-01-01"))
    with pytest.raises(UserError, match=r"y must hold numbers. Got datetime64; convert dates"):
        check_targets(days)
    with pytest.raises(UserError, match=r"X must hold numbers. Got datetime64"):
        small(max_iter=1).fit(X, Y).predict(np.stack((days, days), axis=1))


def test_nat_is_a_missing_value() -> None:
    days = np.full(20, np.datetime64("2020-01-01"))
    days[1] = np.datetime64("NaT")
    for targets in (days, days - days[0]):
        with pytest.raises(UserError, match="Got 1 of 20 missing"):
            check_targets(targets)
    regressor, things = small(max_iter=1).fit(X, Y), X.astype(object)
    expected = regressor.predict(with_value(X, np.nan))
    assert np.isfinite(expected).all()
    for nothing in (np.datetime64("NaT"), pd.NaT):
        things.flat[3] = nothing
        assert np.array_equal(regressor.predict(things), expected)


@pytest.mark.parametrize("X_std", [np.inf, 1e200, 1e-200])
def test_deviations_whose_squares_are_no_numbers_are_refused(X_std: float) -> None:
    with pytest.raises(UserError, match=r"X_std must be 0 or between 1e-150 and 1e.150"):
        deviation_of(X_std, (2, 3))
    with pytest.raises(UserError, match=r"X_std must hold numbers. Got 'much'"):
        deviation_of("much", (2, 3))


def test_missing_inputs_are_allowed_in_fit_and_later() -> None:
    holes = with_value(X, np.nan)
    later = small().fit(X, Y)
    assert np.isfinite(later.predict(holes)).all()
    # Rounding of products depends on the number of rows, on some processors.
    others = np.delete(later.predict(X), 1)
    np.testing.assert_allclose(np.delete(later.predict(holes), 1), others, rtol=1e-10)
    regressor = small().fit(holes, Y)
    assert np.isfinite(regressor.predict(holes)).all()
    assert regressor.n_features_in_ == 2
    assert regressor.input_names_ == ["x0", "x1"]
    often = np.tile(X, (3, 1))
    often[::3, 1] = np.nan
    regressor = small().fit(often, np.tile(Y, 3))
    assert regressor.input_names_ == ["x0", "x1", "x1 is missing"]
    assert regressor.n_features_in_ == 2
    assert np.isfinite(regressor.predict(holes)).all()


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([1, 2], [1.0, 2.0]),
        ([[1, 2], [3, 4]], [[1.0, 2.0], [3.0, 4.0]]),
        (pd.Series([1, 2], dtype="Int64"), [1.0, 2.0]),
        (pl.Series([1, 2]), [1.0, 2.0]),
        (pa.array([1, 2]), [1.0, 2.0]),
        (torch.tensor([1.0, 2.0], requires_grad=True), [1.0, 2.0]),
        (np.array([True, False]), [1.0, 0.0]),
    ],
)
def test_targets_of_any_form_are_numbers(y: Any, expected: list[Any]) -> None:
    found = check_targets(y)
    assert found.dtype == np.float64
    assert found.tolist() == expected


@pytest.mark.parametrize(
    "y",
    [
        [1.0, np.nan, 3.0],
        [1.0, None, 3.0],
        pd.Series([1, None, 3], dtype="Int64"),
        pl.Series([1, None, 3]),
        pa.array([1, None, 3]),
        [[1.0, 2.0], [np.nan, np.nan], [5.0, 6.0]],
        pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1.0, None, 3.0]}),
    ],
    ids=lambda y: type(y).__name__,
)
def test_missing_targets_are_counted(y: Any) -> None:
    for check in (check_targets, require_known_targets):
        with pytest.raises(UserError, match=r"must have a target. Got 1 of 3 missing \(NaN\) in y"):
            check(y)


def test_deviations_are_given_for_all_values() -> None:
    assert deviation_of(None, (2, 3)) is None
    for given in (0.5, [0.5, 0.5, 0.5], np.full((2, 3), 0.5), torch.full((3,), 0.5)):
        found = deviation_of(given, (2, 3))
        assert found is not None
        assert found.tolist() == [[0.5] * 3] * 2
