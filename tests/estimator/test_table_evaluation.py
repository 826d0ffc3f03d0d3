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

from sswim import SSWIMRegressor
from sswim.distributed.processes import ALONE, Processes
from sswim.estimator.evaluation import Scores, evaluate
from sswim.estimator.table_evaluation import evaluate_table
from sswim.tables.missing_values import drop_incomplete_rows
from sswim.tables.schema import Schema
from sswim.tables.table_io import TableError, write_table


def fitted() -> tuple[SSWIMRegressor, Schema]:
    """Fit an estimator to targets far from zero, where sums of squares would cancel."""
    table = shifted(mixed(97))
    schema = Schema.learn(table, "y")
    regressor = small(n_members=2)
    return regressor.fit(schema.encode(table), schema.targets(table)), schema


def shifted(table: pa.Table) -> pa.Table:
    """Return a table whose targets are greater by a million."""
    return table.set_column(0, "y", pa.compute.add(table["y"], 1e6))


def expected(table: pa.Table) -> Scores:
    """Return the scores of a table in memory."""
    regressor, schema = fitted()
    return evaluate(regressor, schema.encode(table), schema.targets(table), 0.8)


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
    found = [evaluate_table(regressor, schema, whole, 0.8, False, processes)]
    found.append(evaluate_table(regressor, schema, gaps, 0.8, True, processes))
    try:
        evaluate_table(regressor, schema, gaps, 0.8, False, processes)
    except TableError as error:
        return [*found, str(error)]
    return found


def test_two_processes_find_the_scores_of_one(tmp_path: Path) -> None:
    table = shifted(mixed(97))
    whole = uneven_folder(tmp_path / "whole", table)
    incomplete = with_gaps(table.slice(0, 20))
    gaps = uneven_folder(tmp_path / "gaps", pa.concat_tables([incomplete, table.slice(20)]))
    complete, kept = drop_incomplete_rows(read_folder(gaps), table.column_names)
    for found, left, refusal in run_processes(2, evaluate_shares, whole, gaps):
        assert_same(found, expected(table))
        assert left.n_rows == kept.sum() < 97
        assert left.n_left_out == 97 - kept.sum()
        assert_same(replace(left, n_left_out=0), expected(complete))
        assert "in row 2 of all rows" in refusal  # only one of the processes has read it


def test_a_table_without_a_usable_row_is_refused(tmp_path: Path) -> None:
    table = mixed(5)
    pq.write_table(table.set_column(0, "y", pa.nulls(5, pa.float64())), tmp_path / "t.parquet")
    with pytest.raises(TableError, match=r"At least one row must have a value.*t.parquet"):
        evaluate_table(*fitted(), tmp_path / "t.parquet", drop_missing=True, processes=ALONE)
