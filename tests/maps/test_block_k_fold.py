"""Cross-validation by blocks."""

from __future__ import annotations

from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsRegressor

from sswim.base.validation import UserError
from sswim.maps import BlockKFold


def uniform(n: int = 400, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0, 10, (n, 3))


def folds(cv: BlockKFold, X: Any) -> list[list[int]]:
    return [test.tolist() for _, test in cv.split(X)]


def test_whole_blocks_are_left_out_once() -> None:
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


def test_folds_follow_from_the_seed() -> None:
    X = uniform()
    first, again, other = (folds(BlockKFold(spacing=2, random_state=seed), X) for seed in (0, 0, 1))
    assert first == again != other
    in_order = BlockKFold(spacing=2, shuffle=False)
    assert folds(in_order, X) == folds(in_order, X) != first


def test_folds_have_equal_numbers_of_rows() -> None:
    random = np.random.default_rng(0)
    X = np.concatenate([random.normal(5, 0.5, (300, 2)), random.uniform(0, 10, (300, 2))])
    sizes = [len(test) for test in folds(BlockKFold(shape=(20, 20), random_state=0), X)]
    assert max(sizes) - min(sizes) < 40


def test_every_kind_of_frame_has_the_same_folds() -> None:
    X = uniform()
    names = ["depth", "east", "north"]
    cv = BlockKFold(shape=(4, 4), coordinates=("east", "north"), random_state=0)
    expected = folds(BlockKFold(shape=(4, 4), coordinates=(1, 2), random_state=0), X)
    columns = dict(zip(names, X.T, strict=True))
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
        assert folds(cv, frame) == expected
        by_number = BlockKFold(shape=(4, 4), coordinates=(1, 2), random_state=0)
        assert folds(by_number, frame) == expected


def test_points_of_a_geo_frame_are_the_coordinates() -> None:
    random = np.random.default_rng(0)
    lon, lat = random.uniform(170, 190, 300), random.uniform(-10, 10, 300)
    wrapped = np.where(lon > 180, lon - 360, lon)
    frame = gpd.GeoDataFrame(
        {"rain": lat}, geometry=gpd.points_from_xy(wrapped, lat), crs="EPSG:4326"
    )
    cv = BlockKFold(spacing=5, random_state=0)
    on_sphere = BlockKFold(spacing=5, random_state=0, geographic=True)
    assert folds(cv, frame) == folds(on_sphere, np.stack([lon, lat], axis=-1))


def test_the_date_line_does_not_cut_blocks() -> None:
    random = np.random.default_rng(0)
    X = np.stack([random.uniform(150, 210, 500), random.uniform(-80, 80, 500)], axis=-1)
    wrapped = np.stack([np.mod(X[:, 0] + 180, 360) - 180, X[:, 1]], axis=-1)
    cv = BlockKFold(spacing=10, geographic=True, random_state=0)
    assert folds(cv, X) == folds(cv, wrapped)


def test_scikit_learn_takes_it() -> None:
    X = uniform()
    y = np.sin(X[:, 0]) + X[:, 1]
    cv = BlockKFold(spacing=2, random_state=0)
    model = KNeighborsRegressor()
    block = cross_val_score(model, X[:, :2], y, cv=cv)
    random = cross_val_score(model, X[:, :2], y, cv=5)
    assert len(block) == cv.get_n_splits() == 5
    assert block.mean() < random.mean()
    search = GridSearchCV(model, {"n_neighbors": [2, 8]}, cv=cv).fit(X[:, :2], y)
    assert search.best_params_["n_neighbors"] in (2, 8)
    assert "BlockKFold(" in repr(cv)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"spacing": None}, "either a spacing or a shape. Got spacing=None and shape=None"),
        ({"shape": (2, 2)}, "either a spacing or a shape"),
        ({"spacing": -1.0}, "spacing must be a positive number. Got -1.0"),
        ({"spacing": np.nan}, "spacing must be a positive number"),
        ({"spacing": None, "shape": (0, 2)}, r"shape\[0\] must be an integer of at least 1"),
        ({"n_splits": 1}, "n_splits must be an integer of at least 2"),
        ({"spacing": 9.0}, "Got 1 blocks for 5 folds; choose smaller blocks or fewer folds"),
        ({"coordinates": (0, 3)}, "two of the 3 columns, counted from 0. Got 3"),
        ({"coordinates": (0, 0)}, "two different columns"),
        ({"coordinates": ("lon", "lat")}, "An array has no column names"),
        ({"spacing": None, "shape": (9, 9), "geographic": True}, "need their spacing, in degrees"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    settings: dict[str, Any] = {"spacing": 2.0} | changes
    with pytest.raises(UserError, match=message):
        next(BlockKFold(**settings).split(uniform()))


def test_bad_coordinates_are_refused() -> None:
    cv = BlockKFold(spacing=2.0, coordinates=("lon", "lat"))
    X = uniform()
    frame = pd.DataFrame({"lon": X[:, 0], "lat": X[:, 1], "name": "a"})
    with pytest.raises(UserError, match=r"must have a column 'lat'.*It has 'lon', 'name'"):
        next(cv.split(frame.drop(columns="lat")))
    frame.loc[3, "lon"] = np.nan
    with pytest.raises(UserError, match="Got 1 rows with missing or infinite ones"):
        next(cv.split(frame))
    with pytest.raises(UserError, match=r"Coordinates must be numbers. Got column 'name'"):
        next(BlockKFold(spacing=2.0, coordinates=("name", "lat")).split(frame))
    with pytest.raises(UserError, match="X must have two dimensions"):
        next(BlockKFold(spacing=2.0).split(X[:, 0]))
