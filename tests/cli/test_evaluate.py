"""The command ``sswim evaluate``."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.commands import invoke, prices, write_price_model, write_prices

from sswim.cli.models import load_model
from sswim.estimator.evaluation import evaluate
from sswim.tables.table_io import write_table


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_prices(tmp_path)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_price_model(tmp_path)


def test_scores_are_those_of_python(model: Path, table: Path) -> None:
    regressor, schema = load_model(model)
    rows = pd.DataFrame(schema.encode(prices()), columns=schema.feature_names)
    scores = evaluate(regressor, rows, schema.targets(prices()))
    evaluated = invoke("evaluate", model, table)
    assert evaluated.exit_code == 0
    lines = evaluated.output.splitlines()
    for name, score in (("RMSE", scores.rmse), ("MNLP", scores.mnlp), ("R²", scores.r2)):
        (line,) = (line for line in lines if name in line)
        assert f"{score:.6g}" in line
    (line,) = (line for line in lines if "coverage of 90% intervals" in line)
    assert f"{scores.coverage:.1%}" in line


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow"])
def test_evaluate_scores_whole_tables_and_chunks_alike(
    model: Path, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"t{suffix}"
    write_table(prices(), path)
    whole, chunks = (invoke("evaluate", model, path, "--memory", each) for each in ("1GB", "0"))
    assert whole.exit_code == 0
    assert whole.output == chunks.output


def test_missing_values_are_an_error_or_left_out(model: Path, tmp_path: Path) -> None:
    rows = prices(10).to_pydict()
    rows["x"][3] = None
    path = tmp_path / "gaps.parquet"
    pq.write_table(pa.table(rows), path)
    refused = invoke("evaluate", model, path)
    assert refused.exit_code == 1
    assert "Got none in 'x' in row 4" in refused.stderr
    for memory in ("2GiB", "0"):  # read whole, and in chunks
        kept = invoke("evaluate", model, path, "--drop-missing", "--memory", memory)
        assert kept.exit_code == 0
        assert "Left out 1 of 10 rows" in kept.stderr
        assert "on 9 rows of" in " ".join(kept.stdout.split())
