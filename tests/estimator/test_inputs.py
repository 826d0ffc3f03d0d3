from __future__ import annotations

from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from builders.estimators import make_rows, small, with_value

from sswim.base.cholesky import FactorisationError, cholesky
from sswim.base.validation import UserError
from sswim.distributed.processes import ALONE
from sswim.estimator import BaseRegressor, inputs
from sswim.estimator.inputs import as_numpy, as_source, check_targets
from sswim.rows import ArraySource, Measure, MemorySource, learn_imputer
from sswim.tables import FrameSource, TableNote, TableSource, write_table

X, Y = make_rows(20)

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
    "X_std whose square is none": ({"X_std": 1e200}, r"must be 0 or between 1e-150 and 1e.150"),
    "text in X_std": ({"X_std": "much"}, "X_std must hold numbers. Got 'much'"),
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
    "nested": (torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged), "a nested tensor"),
    "sparse": (torch.ones(3, 2).to_sparse(), "layout torch.sparse_coo; use tensor.to_dense"),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_without_plain_numbers_are_refused(name: str) -> None:
    tensor, message = TENSORS[name]
    for read in (as_numpy, lambda tensor: inputs.deviation_of(tensor, (3, 2))):
        with pytest.raises(UserError, match=message):
            read(tensor)


def test_tensors_of_any_kind_of_numbers_are_read() -> None:
    for dtype in (torch.bfloat16, torch.float16, torch.float64, torch.int8):
        assert as_numpy(torch.ones(2, dtype=dtype)).tolist() == [1.0, 1.0]
    conjugate = torch.complex(torch.ones(2), torch.ones(2)).conj()
    assert as_numpy(conjugate).tolist() == [1 - 1j, 1 - 1j]
    assert as_numpy(conjugate.imag).tolist() == [-1.0, -1.0]


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
    for rows_ in (X, pd.DataFrame(X, columns=["a", "b"])):
        with pytest.raises(UserError, match="Got 1 of 20 missing"):
            small().fit(rows_, masked)
        with pytest.raises(UserError, match="Got masked values in sample_weight"):
            small().fit(rows_, Y, np.ma.masked_array(np.ones(20), masked.mask))


def test_dates_are_not_taken_as_numbers_and_nat_is_missing() -> None:
    days = np.full(20, np.datetime64("2020-01-01"))
    with pytest.raises(UserError, match=r"y must hold numbers. Got datetime64; convert dates"):
        check_targets(days)
    with pytest.raises(UserError, match=r"X must hold numbers. Got datetime64"):
        small(max_iter=1).fit(X, Y).predict(np.stack((days, days), axis=1))
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
        ([[1, 2], [3, 4]], [[1.0, 2.0], [3.0, 4.0]]),
        (pd.Series([1, 2], dtype="Int64"), [1.0, 2.0]),
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
        [1.0, None, 3.0],
        pd.Series([1, None, 3], dtype="Int64"),
        pl.Series([1, None, 3]),
        pa.array([1, None, 3]),
        pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1.0, None, 3.0]}),
    ],
    ids=lambda y: type(y).__name__,
)
def test_missing_targets_are_counted(y: Any) -> None:
    with pytest.raises(UserError, match=r"must have a target. Got 1 of 3 missing \(NaN\) in y"):
        check_targets(y)


N_ROWS = 60


def rows() -> pd.DataFrame:
    """Return rows with numbers, text and times, and their target."""
    random = np.random.default_rng(0)
    columns = {
        "a": random.normal(size=N_ROWS),
        "code": random.choice(["007", "008", "009"], N_ROWS),
        "when": pd.date_range("2020-01-01", periods=N_ROWS, freq="D"),
        "b": np.where(np.arange(N_ROWS) % 7, random.normal(size=N_ROWS), np.nan),
    }
    frame = pd.DataFrame(columns)
    return frame.assign(y=frame["a"] + random.normal(size=N_ROWS))


INPUTS = ["a", "code", "when", "b"]


@pytest.fixture(scope="module")
def regressor() -> BaseRegressor:
    return small(depth=0, n_components=16, max_iter=2).fit(rows(), "y")


@pytest.fixture(scope="module")
def expected(regressor: BaseRegressor) -> Measure:
    """The encoded rows, whose target is not used."""
    return regressor._reader.read(regressor, rows())


def same(found: Measure, expected: Measure) -> bool:
    return all(map(torch.equal, found.tensors(), expected.tensors()))


@pytest.mark.parametrize(
    "form",
    ["pandas", "polars", "arrow", "batch", "shuffled", "wide", "text", "objects", "parquet", "csv"],
)
def test_rows_of_every_form_are_read_alike(
    form: str, regressor: BaseRegressor, expected: Measure, tmp_path: Path
) -> None:
    frame = rows()
    table = pa.Table.from_pandas(frame, preserve_index=False)
    path = tmp_path / f"t.{form}"
    if form in ("parquet", "csv"):
        write_table(table, path)
    X: Any = {
        "pandas": frame[INPUTS],
        "polars": pl.from_arrow(table),
        "arrow": table,
        "batch": table.to_batches()[0],
        "shuffled": frame[INPUTS[::-1]],
        "wide": frame.assign(other=[[1]] * N_ROWS),
        "text": frame.assign(a=frame["a"].map(repr), when=frame["when"].dt.strftime("%Y-%m-%d")),
        "objects": frame[INPUTS].astype(object).to_numpy(),
        "parquet": path,
        "csv": str(path),
    }[form]
    assert same(regressor._reader.read(regressor, X), expected)


def test_a_deviation_of_columns_is_one_of_inputs(
    regressor: BaseRegressor, expected: Measure
) -> None:
    found = regressor._reader.read(regressor, rows(), [0.5, 0, 0, 0.25])
    assert np.array_equal(found.mean, expected.mean)
    assert found.input_variance is not None
    assert expected.input_variance is not None
    names = regressor.input_names_
    known = np.array([{"a": 0.25, "b": 0.0625}.get(name, 0.0) for name in names])
    assert np.allclose(found.input_variance - expected.input_variance, known)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (rows()[["a", "code"]], "must have columns 'when', 'b'"),
        (rows()[:0], "at least one row"),
        (rows()[["a"]].to_numpy(), r"array of 4 columns \('a', 'code', 'when', 'b'\)"),
        (rows().assign(a=rows()["when"]), "'a' must hold numbers. Got type timestamp"),
        (rows().assign(a=np.inf), "Got 60 infinite values in column 'a'"),
        ("nowhere.csv", "cannot be found"),
    ],
)
def test_rows_that_do_not_fit_the_model_are_refused(
    X: Any, message: str, regressor: BaseRegressor
) -> None:
    with pytest.raises(UserError, match=message):
        regressor.predict(X)


def test_a_target_is_split_off_frames_and_paths(
    regressor: BaseRegressor, tmp_path: Path, expected: Measure
) -> None:
    table = pa.Table.from_pandas(rows(), preserve_index=False)
    write_table(table, tmp_path / "t.parquet")
    for X in (rows(), table, tmp_path / "t.parquet"):
        others, targets = regressor._reader.split_target(X, "y")
        assert np.array_equal(targets, rows()["y"])
        assert same(regressor._reader.read(regressor, others), expected)
    assert np.array_equal(regressor.predict(expected), regressor.predict(rows()))
    with pytest.raises(UserError, match="y may be the name of a column where X is a data frame"):
        regressor._reader.split_target(rows().to_numpy(), "y")


def test_a_model_of_arrays_reads_arrays() -> None:
    regressor = small(depth=0, max_iter=1).fit(X, Y)
    reader = regressor._reader
    assert (reader.schema, reader.columns, reader.inputs) == (None, None, None)
    assert reader.n_columns == reader.n_inputs == 2
    for form in (X, torch.tensor(X), X.tolist()):
        found = reader.read(regressor, form)
        assert np.array_equal(found.mean, X)
        assert found.input_variance is None
    holes = with_value(X, np.nan)
    found = reader.read(regressor, holes, 0.5)
    expected = learn_imputer(X)
    assert np.array_equal(reader.imputer.mean, expected.mean)
    assert np.array_equal(found.mean, expected.fill(holes)[0])
    assert found.input_variance is not None
    assert found.input_variance[1, 1] > 0.25
    assert np.all(np.delete(found.input_variance.numpy().ravel(), 3) == 0.25)
    with pytest.raises(UserError, match="model of arrays does not know the columns of a table"):
        regressor.predict("t.csv")
    with pytest.raises(UserError, match="y may be the name of a column"):
        reader.split_target(X, "y")


def test_points_are_read_in_the_reference_system_of_fit() -> None:
    x, y = make_rows(30)
    points = geopandas.points_from_xy(151 + x[:, 0], -33 + x[:, 1], crs="EPSG:4326")
    geo = geopandas.GeoDataFrame({"a": y}, geometry=points)
    plane = geo.to_crs("EPSG:3857")
    for fitted, other in ((geo, plane), (plane, geo)):
        regressor = small(depth=0, max_iter=1).fit(fitted, y)
        ours, theirs = (regressor._reader.read(regressor, each) for each in (fitted, other))
        assert np.allclose(ours.mean, theirs.mean, rtol=1e-9, atol=1e-9)
    assert source_of(geo, y).names == ("lon, lat east", "lon, lat north", "lon, lat up", "a")
    assert "WGS 84" in source_of(geo, y).schema.crs
    assert source_of(plane, y).names == ("x", "y", "a")
    assert source_of(plane, y).schema.sphere is None
    bare = pd.DataFrame({"a": y, "lat": -33 + x[:, 1], "lon": 151 + x[:, 0]})
    regressor = small(depth=0, max_iter=1).fit(geo, y)
    assert np.allclose(regressor.predict(bare), regressor.predict(geo))


NAMES = ["east", "north"]
FRAME = pd.DataFrame(X, columns=NAMES)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    FRAME.assign(height=Y).to_csv(path, index=False)
    return path


def source_of(X: Any, y: Any = Y, **options: Any) -> Any:
    given = {"sample_weight": None, "X_std": None, "memory": 2**30, "processes": ALONE} | options
    return as_source(small(coordinates=given.pop("coordinates", None)), X, y, **given)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, object])
def test_arrays_of_plain_numbers_become_rows_in_memory(dtype: Any) -> None:
    source = source_of((10 * X).astype(dtype))
    assert type(source) is MemorySource
    assert source.flat_targets
    assert source.names is None
    assert np.array_equal(np.sort(source.rows.targets[:, 0]), np.sort(Y))


def test_the_columns_of_a_frame_are_the_names_of_the_inputs() -> None:
    for each in (FRAME, pl.DataFrame(X, schema=NAMES), pa.table(list(X.T), names=NAMES)):
        source = source_of(each)
        assert isinstance(source, FrameSource)
        assert source.names == source.columns == ("east", "north")
        assert np.array_equal(source.rows.inputs.mean, X)
        assert source.flat_targets
        assert not source_of(each, Y[:, None]).flat_targets
    unnamed = source_of(pd.DataFrame(X))
    assert unnamed.columns is None
    assert unnamed.names == ("0", "1")
    source, expected = source_of(FRAME.assign(height=Y), "height"), source_of(FRAME)
    assert source.names == ("east", "north")
    assert source.schema.target == "height"
    assert torch.equal(source.rows.targets, expected.rows.targets)
    assert torch.equal(source.rows.inputs.mean, expected.rows.inputs.mean)
    with pytest.warns(TableNote, match="'nothing' is not used: it has no values"):
        source_of(FRAME.assign(nothing=None))


@pytest.mark.parametrize(
    ("array", "names"),
    [
        (with_value(X, np.nan).astype(np.float32), ("x0", "x1")),
        (torch.tensor(with_value(X, np.nan)), ("x0", "x1")),
        (with_value(X, np.nan).astype(object), ("x0", "x1")),
        (np.array([[1.5, "a"], [2.5, "b"]] * 10, dtype=object), ("x0", "x1=b")),
        (np.array([[1.5, None], [2.5, True]] * 10, dtype=object), ("x0", "x1")),
        (np.array([["a", "b"], ["c", "d"]] * 10), ("x0=c", "x1=d")),
    ],
)
def test_arrays_of_other_things_become_tables(array: Any, names: tuple[str, ...]) -> None:
    source = source_of(array)
    assert isinstance(source, FrameSource)
    assert source.names == names
    assert source.columns is None  # the names are not the user's
    assert source.rows.inputs.mean.isfinite().all()


def test_coordinates_are_given_by_name_or_by_place() -> None:
    expected = ("east, north east", "east, north north", "east, north up")
    assert source_of(FRAME, coordinates=("east", "north")).names == expected
    assert source_of(FRAME, coordinates=(0, 1)).names == expected
    assert source_of(X, coordinates=(1, 0)).names[0] == "x1, x0 east"


@pytest.mark.parametrize("memory", [0, 2**30])
def test_a_path_becomes_a_source_of_the_tables_rows(table: Path, memory: int) -> None:
    for path in (table, str(table)):
        source = source_of(path, "height", memory=memory)
        assert isinstance(source, FrameSource if memory else TableSource)
        assert source.names == ("east", "north")
        chunks = list(source.chunks())
        assert np.allclose(np.concatenate([chunk.rows.inputs.mean for chunk in chunks]), X)
        assert np.allclose(np.concatenate([chunk.rows.targets for chunk in chunks])[:, 0], Y)
        assert source_of(source, None) is source  # a source is used as it is
    tables = source_of(table, "height", coordinates=("east", "north"))
    assert source_of(tables, None, coordinates=("east", "north")) is tables


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sample_weight": np.ones(20)}, "sample_weight and X_std belong to arrays"),
        ({"X_std": 0.1}, "sample_weight and X_std belong to arrays"),
        ({"y": Y}, "A source has its own targets"),
        ({"X": "table.csv"}, "target of a table must be the name of a column. Got None"),
        ({"coordinates": (0, 1)}, "whose inputs are used as they are"),
        ({"X": X, "y": "height"}, "y may be the name of a column where X is a data frame"),
        ({"X": FRAME, "y": "height"}, "must have columns 'height'"),
        ({"X": FRAME, "y": None}, "requires y to be passed"),
        ({"X": FRAME, "y": Y, "coordinates": ("lon", "lat")}, "must name input columns"),
        ({"X": FRAME[:1], "y": Y[:1]}, "at least 2 rows and 1 column. Got 1 sample"),
        ({"X": FRAME, "y": Y, "X_std": [0.1] * 3}, "X_std must be a number, or have shape"),
    ],
)
def test_arguments_that_exclude_each_other_are_an_error(
    arguments: dict[str, Any], message: str
) -> None:
    given = {"X": ArraySource(X, Y), "y": None} | arguments
    with pytest.raises(UserError, match=message):
        source_of(**given)


def test_predictions_that_are_not_finite_are_an_error_of_the_user() -> None:
    values = torch.zeros(2, 1, dtype=torch.float64)
    assert inputs.finite(values) is values
    for value in (torch.nan, torch.inf, -torch.inf):
        with pytest.raises(UserError, match=r"Predictions must be finite.*Fit it again"):
            inputs.finite(values + value)
    with pytest.raises(UserError, match=r"finite.*covariance") as raised, inputs.finite_algebra():
        cholesky(torch.full((2, 2), torch.nan, dtype=torch.float64), "covariance")
    assert isinstance(raised.value.__cause__, FactorisationError)
