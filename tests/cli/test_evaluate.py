"""The command ``sswim evaluate``."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.commands import FAST, invoke, prices
from builders.maps import sphere_rows

from sswim.cli.options import load_model
from sswim.estimator import permutation
from sswim.estimator.evaluation import evaluate
from sswim.estimator.permutation import permutation_importance
from sswim.maps import evaluate_table_blocks
from sswim.tables import write_table


def test_scores_are_those_of_python(model: Path, table: Path) -> None:
    regressor, _ = load_model(model)
    scores = evaluate(regressor, prices(), prices()["price"].to_numpy())
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


@pytest.mark.parametrize("memory", ["2GiB", "0"])  # read whole, and in chunks
def test_missing_values_are_imputed_refused_or_left_out(
    model: Path, tmp_path: Path, memory: str
) -> None:
    rows = prices(10).to_pydict()
    rows["x"][3] = None
    path = tmp_path / "gaps.parquet"
    pq.write_table(pa.table(rows), path)
    imputed = invoke("evaluate", model, path, "--memory", memory)
    assert imputed.exit_code == 0
    assert "Left out" not in imputed.stderr
    assert "on 10 rows of" in " ".join(imputed.stdout.split())
    rows["price"][5] = None
    pq.write_table(pa.table(rows), path)
    refused = invoke("evaluate", model, path, "--memory", memory)
    assert refused.exit_code == 1
    assert "Got 1 of 10 rows without one in column 'price'" in " ".join(refused.stderr.split())
    for option, n_rows in (("--drop-missing-target", 9), ("--drop-missing", 8)):
        options = ("--drop-missing-target", option, "--memory", memory)
        kept = invoke("evaluate", model, path, *options)
        assert kept.exit_code == 0
        assert f"Left out {10 - n_rows} of 10 rows" in kept.stderr
        assert f"on {n_rows} rows of" in " ".join(kept.stdout.split())


def test_blocks_are_scored_beside_random_rows(tmp_path: Path) -> None:
    table, model = tmp_path / "rows.parquet", tmp_path / "model.sswim"
    sphere_rows().to_parquet(table)
    options = ("--target", "height", "--coordinates", "lon,lat", *FAST)
    assert invoke("fit", table, "--out", model, *options).exit_code == 0
    scored = invoke("evaluate", model, table, "--blocks", "10", "--folds", "2")
    assert scored.exit_code == 0, scored.output
    assert "blocks, fold 2 of 2: RMSE" in scored.stderr
    found = evaluate_table_blocks(*load_model(model), table, 10.0, n_folds=2)
    (line,) = (line for line in scored.stdout.splitlines() if "RMSE" in line)
    assert f"{found.blocks.rmse:.6g}" in line
    assert f"{found.random.rmse:.6g}" in line
    assert f"{found.n_blocks} blocks" in scored.stdout


def test_importance_is_a_table_of_columns(
    model: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permutation, "MAX_ROWS", 20)
    shown = invoke("evaluate", model, table, "--importance")
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.index("coverage of 90%") < shown.stdout.index("±")  # scores come first
    found = permutation_importance(*load_model(model), table)
    lines = [line for line in shown.stdout.splitlines() if "±" in line]
    assert len(lines) == 2
    for line, column in zip(lines, found.columns, strict=True):
        assert f" {column.name} " in line
        assert f"{column.rmse.mean:+.3g} ± {column.rmse.deviation:.1g}" in line
        assert f"{column.mnlp.mean:+.3g} ± {column.mnlp.deviation:.1g}" in line
    assert "(20 of 60 rows)" in " ".join(shown.stdout.split())
