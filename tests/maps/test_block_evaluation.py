"""Scores of blocks that were left out, beside those of random rows."""

from __future__ import annotations

from pathlib import Path

import geopandas as gpd
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.maps import FAST, plane_model, sphere_model, sphere_rows, stations
from sklearn.base import clone

from sswim import SSWIMRegressor, evaluate
from sswim.base.validation import UserError
from sswim.maps import BlockKFold
from sswim.maps.blocks import evaluate_blocks, evaluate_table_blocks
from sswim.tables import LeftOut, schema_from_dict


def test_every_row_is_scored_by_a_fit_without_its_block() -> None:
    frame = stations()
    X, y = frame[["x", "y"]], frame["height"].to_numpy()
    model = plane_model()
    lines: list[str] = []
    found = evaluate_blocks(model, X, y, 2.5, n_folds=2, coordinates=("x", "y"), say=lines.append)
    assert (found.n_blocks, found.blocks.n_rows, found.random.n_rows) == (8, len(y), len(y))
    assert [line.split(":")[0] for line in lines] == [
        "blocks, fold 1 of 2",
        "blocks, fold 2 of 2",
        "random, fold 1 of 2",
        "random, fold 2 of 2",
    ]
    squares = 0.0
    for train, test in BlockKFold(2.5, n_splits=2, random_state=0).split(X):
        part = clone(model).fit(X.iloc[train], y[train])
        squares += len(test) * evaluate(part, X.iloc[test], y[test]).rmse ** 2
    assert found.blocks.rmse == pytest.approx(np.sqrt(squares / len(y)))


def test_a_model_on_the_sphere_knows_its_coordinates() -> None:
    frame = sphere_rows()
    model = sphere_model()
    found = evaluate_blocks(model, frame[["lon", "lat"]], frame["height"], 10, n_folds=2)
    assert found.n_blocks >= 16
    points = gpd.points_from_xy(frame["lon"], frame["lat"])
    rows = gpd.GeoDataFrame(geometry=points, crs="EPSG:4326")
    fitted = SSWIMRegressor(**FAST).fit(rows, frame["height"])
    same = evaluate_blocks(fitted, rows, frame["height"], 10, n_folds=2)
    assert same.blocks.rmse == pytest.approx(found.blocks.rmse)


def test_tables_are_scored_like_frames(tmp_path: Path) -> None:
    frame = sphere_rows()
    table = pa.Table.from_pandas(frame.assign(other="text"))
    model = SSWIMRegressor(coordinates=("lon", "lat"), **FAST)
    model.fit(frame, "height")
    pq.write_table(table, tmp_path / "table.parquet")
    schema = schema_from_dict(model.table_schema_)
    found = evaluate_table_blocks(model, schema, tmp_path / "table.parquet", 10, n_folds=2)
    expected = evaluate_blocks(model, frame[["lon", "lat"]], frame["height"], 10, n_folds=2)
    assert found == expected
    heights = frame["height"].to_numpy().copy()
    heights[3] = np.nan
    gaps = table.set_column(2, "height", pa.array(heights, from_pandas=True))
    pq.write_table(gaps, tmp_path / "gaps.parquet")
    without = evaluate_table_blocks(
        model,
        schema,
        tmp_path / "gaps.parquet",
        10,
        n_folds=2,
        left_out=LeftOut(target_missing=True),
    )
    assert (without.blocks.n_rows, without.blocks.n_left_out) == (len(frame) - 1, 1)


def test_coordinates_are_needed() -> None:
    frame = stations()
    with pytest.raises(UserError, match="give coordinates, or --coordinates"):
        evaluate_blocks(plane_model(), frame[["x", "y"]], frame["height"], 2)
