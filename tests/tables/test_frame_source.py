from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from builders.tables import learn, mixed, with_gaps

from sswim.rows.imputer import impute
from sswim.tables import FrameSource, TableError
from sswim.tables import table_source as frame_source

N_ROWS = 97
INPUTS = ["n", "f", "town", "day", "new"]


def targets(n_targets: int = 1) -> Any:
    return np.random.default_rng(0).normal(size=(N_ROWS, n_targets))


def gaps() -> pa.Table:
    """Return input columns with missing values."""
    return with_gaps(mixed(N_ROWS)).select(INPUTS)


def sorted_rows(source: FrameSource) -> tuple[Any, Any]:
    """Return inputs and targets of the chunks, in the order of the first input."""
    (chunk,) = source.chunks()
    inputs, targets = chunk.rows.inputs.mean.numpy(), chunk.rows.targets.numpy()
    order = np.argsort(inputs[:, 0])
    return inputs[order], targets[order]


def test_rows_are_those_of_a_learnt_schema() -> None:
    table = mixed(N_ROWS)
    learnt = learn(table)
    y = table["y"].to_numpy()[:, None]
    source = FrameSource(table.select(INPUTS), y, target="y")
    assert source.schema == learnt.schema
    assert source.names == tuple(learnt.schema.feature_names)
    assert source.columns == tuple(INPUTS)
    assert source.in_memory
    assert source.n_rows == N_ROWS
    inputs, found = sorted_rows(source)
    assert np.array_equal(inputs, learnt.encode(np.arange(N_ROWS), table))
    assert np.array_equal(found, y)
    assert source.rows.inputs.input_variance is None
    assert source.imputer is not None
    assert np.array_equal(source.imputer.mean, learnt.imputer.mean)


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = FrameSource(gaps(), targets())
    monkeypatch.setattr(frame_source, "CHUNK_ROWS", 10)
    pieces = FrameSource(gaps(), targets())
    assert pieces.schema == whole.schema
    # Imputed values are products, whose last bit depends on their shape on some processors.
    assert torch.allclose(pieces.rows.inputs.mean, whole.rows.inputs.mean, rtol=1e-14, atol=1e-15)
    monkeypatch.setattr(frame_source, "CHUNK_ROWS", 1)  # pieces with and without missing values
    rows = FrameSource(gaps(), targets())
    assert torch.allclose(rows.rows.inputs.mean, whole.rows.inputs.mean)


def test_missing_values_are_imputed_and_count_as_known() -> None:
    source = FrameSource(gaps(), targets())
    assert source.rows.inputs.mean.isfinite().all()
    assert source.rows.inputs.input_variance is None
    assert source.schema is not None
    assert source.imputer is not None
    inputs = source.schema.encode(gaps())
    expected, _ = impute(inputs, source.imputer, None, source.schema.indicators)
    assert np.array_equal(source.rows.inputs.mean, expected)


def test_a_known_deviation_of_columns_is_one_of_inputs() -> None:
    deviation = np.zeros((N_ROWS, len(INPUTS)))
    deviation[:, [0, 1]] = 0.5
    source = FrameSource(gaps(), targets(), deviation=deviation)
    variance = source.rows.inputs.input_variance
    assert variance is not None
    known = [0.25 if name in ("n", "f") else 0.0 for name in source.schema.feature_names]
    assert variance.tolist() == [known] * N_ROWS
    deviation[:, 2] = 0.5
    with pytest.raises(TableError, match=r"X_std must be zero .* Got 'town'"):
        FrameSource(gaps(), targets(), deviation=deviation)


def test_several_targets_weights_and_precision() -> None:
    weight = np.arange(1.0, N_ROWS + 1)
    source = FrameSource(
        gaps(), targets(3), weight=weight, dtype=torch.float32, flat_targets=False, has_names=False
    )
    assert source.rows.inputs.mean.dtype == torch.float32
    assert source.rows.targets.shape == (N_ROWS, 3)
    assert source.rows.weight is not None
    assert np.array_equal(source.rows.weight, weight)
    assert not source.flat_targets
    assert source.columns is None


def test_notes_and_counts_of_the_table_are_kept() -> None:
    table = gaps().append_column("nothing", pa.nulls(N_ROWS))
    source = FrameSource(table, targets(), notes=("read with ';'",), n_left_out=3, crs="WKT")
    expected = "Column 'nothing' is not used: it has no values."
    assert source.notes == ("read with ';'", expected)
    assert source.n_rows == N_ROWS + 3
    assert source.n_left_out == 3
    assert source.schema.crs == "WKT"


def test_coordinates_share_a_unit() -> None:
    random = np.random.default_rng(0)
    table = pa.table({"lon": random.uniform(0, 9, 50), "lat": random.uniform(0, 9, 50)})
    source = FrameSource(table, np.zeros((50, 1)), coordinates=("lon", "lat"))
    assert source.isotropic == ((0, 1, 2),)
    assert source.rows.inputs.mean.shape == (50, 3)
    assert FrameSource(table, np.zeros((50, 1))).isotropic == ()


def test_a_column_may_be_called_text() -> None:
    table = pa.table({"code": [1, 2] * 20})
    assert FrameSource(table, np.zeros((40, 1)), text=["code"]).names == ("code=2",)
