from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.estimators import small
from builders.processes import run_processes
from builders.tables import mixed, small_chunks, with_gaps

from sswim.distributed.processes import ALONE, Processes
from sswim.estimator import BaseRegressor
from sswim.estimator.evaluation import Scores, evaluate, evaluate_table
from sswim.tables import (
    KEEP_ALL,
    LeftOut,
    Schema,
    TableError,
    complete_rows,
    write_table,
)


def fitted() -> tuple[BaseRegressor, Schema]:
    """Fit an estimator to targets far from zero, where sums of squares would cancel."""
    regressor = small(n_members=2).fit(shifted(mixed(97)), "y")
    return regressor, regressor.table_schema_


def shifted(table: pa.Table) -> pa.Table:
    """Return a table whose targets are greater by a million."""
    return table.set_column(0, "y", pa.compute.add(table["y"], 1e6))


def expected(table: pa.Table) -> Scores:
    """Return the scores of a table in memory."""
    regressor, _ = fitted()
    return evaluate(regressor, table, table["y"].to_numpy(), 0.8)


def assert_same(ours: Scores, theirs: Scores) -> None:
    assert asdict(ours) == pytest.approx(asdict(theirs), rel=1e-9)


def uneven_folder(folder: Path, table: pa.Table) -> Path:
    """Write 97 rows to files of different sizes, one of them without rows."""
    folder.mkdir()
    for name, (first, last) in {"a": (0, 70), "b": (70, 70), "c": (70, 97)}.items():
        pq.write_table(table.slice(first, last - first), folder / f"{name}.parquet")
    return folder


def read_folder(folder: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(file) for file in sorted(folder.iterdir())])


@pytest.mark.parametrize("form", ["folder", "t.csv", "t.arrow"])
def test_a_table_in_parts_has_the_scores_of_all_its_rows(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_chunks(monkeypatch, 10)
    table = shifted(mixed(97))
    if form == "folder":
        uneven_folder(tmp_path / form, table)
    else:
        write_table(table, tmp_path / form)
    assert_same(evaluate_table(*fitted(), tmp_path / form, 0.8), expected(table))


def evaluate_shares(processes: Processes, whole: Path, gaps: Path) -> list[Any]:
    regressor, schema = fitted()
    found = [
        evaluate_table(regressor, schema, whole, 0.8, KEEP_ALL, processes),
        evaluate_table(regressor, schema, gaps, 0.8, LeftOut(any_missing=True), processes),
        evaluate_table(regressor, schema, gaps, 0.8, LeftOut(target_missing=True), processes),
    ]
    try:
        evaluate_table(regressor, schema, gaps, 0.8, KEEP_ALL, processes)
    except TableError as error:
        return [*found, str(error)]
    return found


def test_two_processes_find_the_scores_of_one(tmp_path: Path) -> None:
    table = shifted(mixed(97))
    whole = uneven_folder(tmp_path / "whole", table)
    incomplete = with_gaps(table.slice(0, 20))
    gaps = uneven_folder(tmp_path / "gaps", pa.concat_tables([incomplete, table.slice(20)]))
    with_targets = read_folder(gaps).filter(pa.array(complete_rows(read_folder(gaps), ["y"])))
    complete = with_targets.filter(pa.array(complete_rows(with_targets, table.column_names)))
    assert complete.num_rows < with_targets.num_rows < 97
    for found, left, imputed, refusal in run_processes(2, evaluate_shares, whole, gaps):
        assert_same(found, expected(table))
        for scores, rows in ((left, complete), (imputed, with_targets)):
            assert scores.n_rows == rows.num_rows
            assert scores.n_left_out == 97 - rows.num_rows
            assert_same(replace(scores, n_left_out=0), expected(rows))
        assert "Got 2 of 48 rows without one in column 'y'" in refusal  # the share of one of them


def test_a_table_without_a_usable_row_is_refused(tmp_path: Path) -> None:
    table = mixed(5)
    pq.write_table(table.set_column(0, "y", pa.nulls(5, pa.float64())), tmp_path / "t.parquet")
    with pytest.raises(TableError, match=r"At least one row must have a value.*t.parquet"):
        evaluate_table(
            *fitted(),
            tmp_path / "t.parquet",
            left_out=LeftOut(target_missing=True),
            processes=ALONE,
        )


def test_an_infinite_number_is_named(tmp_path: Path) -> None:
    values = shifted(mixed(50))["f"].to_pylist()
    values[31] = float("inf")
    table = shifted(mixed(50)).set_column(2, "f", pa.array(values))
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(TableError, match=r"infinite one in 'f' in row 32 of all rows"):
        evaluate_table(*fitted(), tmp_path / "t.parquet")
