"""Blocks of the plane and of the sphere, folds of them, and scores of blocks left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.maps import FAST, plane_model, sphere_rows, stations
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsRegressor

from sswim import evaluate
from sswim.base.validation import UserError
from sswim.estimator import make_estimator
from sswim.maps import BlockKFold, evaluate_blocks, evaluate_table_blocks
from sswim.tables import LeftOut


def uniform(n: int = 400, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0, 10, (n, 3))


def folds(cv: BlockKFold, X: Any) -> list[list[int]]:
    return [test.tolist() for _, test in cv.split(X)]


def sphere_blocks(points: Any, spacing: float = 10) -> np.ndarray:
    return BlockKFold(spacing, geographic=True).blocks(np.asarray(points, dtype=np.float64))


def test_a_rectangle_is_cut_into_blocks() -> None:
    points = np.array([[0, 0], [1, 0], [9, 0], [0, 3], [9.9, 4], [10, 4]], dtype=np.float64)
    for cv in (BlockKFold(shape=(2, 5)), BlockKFold(spacing=2)):
        assert cv.blocks(points).tolist() == [0, 0, 1, 2, 3, 3]
    # The spacing is adjusted to the rectangle.
    points = np.stack([np.linspace(0, 10, 1001), np.zeros(1001)], axis=-1)
    counts = np.bincount(BlockKFold(spacing=3.1).blocks(points))
    assert len(counts) == 3
    assert np.ptp(counts) <= 1
    assert set(BlockKFold(spacing=100).blocks(points).tolist()) == {0}


def test_the_sphere_is_covered_by_equal_areas() -> None:
    random = np.random.default_rng(0)
    n = 200_000
    lat = np.rad2deg(np.arcsin(random.uniform(-1, 1, n)))
    blocks = sphere_blocks(np.stack([random.uniform(-180, 180, n), lat], axis=-1), 15)
    counts = np.bincount(blocks)
    assert counts.max() < 1.7 * counts.min()
    assert len(set(blocks[np.abs(lat) > 75].tolist())) <= 8  # few at the poles, of many degrees


def test_the_date_line_and_the_poles_do_not_cut_blocks() -> None:
    first, second, third = sphere_blocks([[-179.9, 5], [180.1, 5], [540.1, 5]])
    assert first == second == third
    assert np.ptp(sphere_blocks([[-1e-16, 5], [-1, 5]])) == 0
    assert np.ptp(sphere_blocks([[179.9, 5], [-179.9, 5]], 9)) == 1
    assert sphere_blocks([[0, -90], [123, -89], [0, 0], [123, 90]], 10)[0] == 0
    with pytest.raises(UserError, match="are longitude and latitude in this order"):
        sphere_blocks([[10, 170]])
    frame = sphere_rows()
    X = frame[["lon", "lat"]].to_numpy()
    cv = BlockKFold(spacing=10, geographic=True, random_state=0)
    points = gpd.GeoDataFrame(frame[["height"]], geometry=gpd.points_from_xy(*X.T), crs="EPSG:4326")
    turned = np.stack([np.mod(X[:, 0], 360), X[:, 1]], axis=-1)
    assert folds(cv, X) == folds(cv, turned)
    assert folds(BlockKFold(spacing=10, random_state=0), points) == folds(cv, X)


def test_whole_blocks_are_left_out_once_in_folds_of_equal_sizes() -> None:
    X = uniform()
    cv = BlockKFold(spacing=2, n_splits=4, random_state=0)
    blocks = cv.blocks(X)
    assert len(set(blocks.tolist())) == 25
    seen: list[int] = []
    for train, test in cv.split(X):
        assert not set(blocks[train]) & set(blocks[test])
        assert sorted([*train, *test]) == list(range(len(X)))
        assert abs(len(test) - 100) <= np.bincount(blocks).max()
        seen += test.tolist()
    assert sorted(seen) == list(range(len(X)))
    first, again, other = (folds(BlockKFold(spacing=2, random_state=seed), X) for seed in (0, 0, 1))
    assert first == again != other
    in_order = BlockKFold(spacing=2, shuffle=False)
    assert folds(in_order, X) == folds(in_order, X) != first


def test_every_kind_of_frame_has_the_same_folds() -> None:
    X = uniform()
    columns = dict(zip(["depth", "east", "north"], X.T, strict=True))
    by_name = BlockKFold(shape=(4, 4), coordinates=("east", "north"), random_state=0)
    by_number = BlockKFold(shape=(4, 4), coordinates=(1, 2), random_state=0)
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
        assert folds(by_name, frame) == folds(by_number, frame) == folds(by_number, X)


def test_scikit_learn_takes_it() -> None:
    X = uniform()
    y = np.sin(X[:, 0]) + X[:, 1]
    cv, model = BlockKFold(spacing=2, random_state=0), KNeighborsRegressor()
    block = cross_val_score(model, X[:, :2], y, cv=cv)
    assert len(block) == cv.get_n_splits() == 5
    assert block.mean() < cross_val_score(model, X[:, :2], y, cv=5).mean()
    assert "BlockKFold(" in repr(cv)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"spacing": None}, "either a spacing or a shape. Got spacing=None and shape=None"),
        ({"spacing": -1.0}, "spacing must be a positive number. Got -1.0"),
        ({"spacing": None, "shape": (0, 2)}, r"shape\[0\] must be an integer of at least 1"),
        ({"n_splits": 1}, "n_splits must be an integer of at least 2"),
        ({"spacing": 9.0}, "Got 1 blocks for 5 folds; choose smaller blocks or fewer folds"),
        ({"coordinates": (0, 3)}, "two of the 3 columns, counted from 0. Got 3"),
        ({"coordinates": (0, 0)}, "two different columns"),
        ({"coordinates": ("lon", "lat")}, "An array has no column names"),
        ({"spacing": None, "shape": (9, 9), "geographic": True}, "need their spacing, in degrees"),
    ],
)
def test_impossible_blocks_are_refused(changes: dict[str, Any], message: str) -> None:
    settings: dict[str, Any] = {"spacing": 2.0} | changes
    with pytest.raises(UserError, match=message):
        next(BlockKFold(**settings).split(uniform()))


def test_bad_coordinates_are_refused() -> None:
    X = uniform()
    frame = pd.DataFrame({"lon": X[:, 0], "lat": X[:, 1], "name": "a"})
    for names, rows, message in (
        (("lon", "lat"), frame.drop(columns="lat"), r"column 'lat'.*It has 'lon', 'name'"),
        (("lon", "lat"), frame.replace({"lon": {X[3, 0]: np.nan}}), "Got 1 rows with missing"),
        (("name", "lat"), frame, r"Coordinates must be numbers. Got column 'name'"),
        (None, X[:, 0], "X must have two dimensions"),
    ):
        with pytest.raises(UserError, match=message):
            next(BlockKFold(spacing=2.0, coordinates=names).split(rows))


def test_every_row_is_scored_by_a_fit_without_its_block() -> None:
    frame = stations()
    X, y = frame[["x", "y"]], frame["height"].to_numpy()
    model = plane_model()
    lines: list[str] = []
    found = evaluate_blocks(model, X, y, 2.5, n_folds=2, coordinates=("x", "y"), say=lines.append)
    assert (found.n_blocks, found.blocks.n_rows, found.random.n_rows) == (8, len(y), len(y))
    assert [line.split(":")[0] for line in lines] == [
        f"{name}, fold {number} of 2" for name in ("blocks", "random") for number in (1, 2)
    ]
    squares = 0.0
    for train, test in BlockKFold(2.5, n_splits=2, random_state=0).split(X):
        part = clone(model).fit(X.iloc[train], y[train])
        squares += len(test) * evaluate(part, X.iloc[test], y[test]).rmse ** 2
    assert found.blocks.rmse == pytest.approx(np.sqrt(squares / len(y)))
    with pytest.raises(UserError, match="give coordinates, or --coordinates"):
        evaluate_blocks(model, X, y, 2)


def test_tables_are_scored_like_frames(tmp_path: Path) -> None:
    frame, path = sphere_rows(), tmp_path / "table.parquet"
    table = pa.Table.from_pandas(frame.assign(other="text"))
    model = make_estimator(coordinates=("lon", "lat"), **FAST).fit(frame, "height")
    schema: Any = model._reader.schema
    pq.write_table(table, path)
    found = evaluate_table_blocks(model, schema, path, 10, n_folds=2)
    expected = evaluate_blocks(model, frame[["lon", "lat"]], frame["height"], 10, n_folds=2)
    assert found == expected
    assert found.n_blocks >= 16
    heights = frame["height"].where(frame.index != 3)
    pq.write_table(table.set_column(2, "height", pa.array(heights, from_pandas=True)), path)
    left_out = LeftOut(target_missing=True)
    without = evaluate_table_blocks(model, schema, path, 10, n_folds=2, left_out=left_out)
    assert (without.blocks.n_rows, without.blocks.n_left_out) == (len(frame) - 1, 1)
