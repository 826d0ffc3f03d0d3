from __future__ import annotations

from pathlib import Path

import pytest
from builders.commands import FAST, prices, succeed
from builders.maps import sphere_rows

from sswim.cli.options import load_model
from sswim.estimator import evaluation
from sswim.estimator.evaluation import evaluate, permutation_importance
from sswim.maps import evaluate_table_blocks
from sswim.tables import write_table


def line_of(output: str, word: str) -> str:
    (line,) = (line for line in output.splitlines() if word in line)
    return line


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow"])
def test_scores_are_those_of_python_whole_and_in_chunks(
    model: Path, tmp_path: Path, suffix: str
) -> None:
    table = tmp_path / f"t{suffix}"
    write_table(prices(), table)
    scores = evaluate(load_model(model)[0], prices(), prices()["price"].to_numpy())
    whole, chunks = (
        succeed("evaluate", model, table, "--memory", memory).output for memory in ("1GB", "0")
    )
    assert whole == chunks
    for name, score in (("RMSE", scores.rmse), ("MNLP", scores.mnlp), ("R²", scores.r2)):
        assert f"{score:.6g}" in line_of(whole, name)
    assert f"{scores.coverage:.1%}" in line_of(whole, "coverage of 90% intervals")


def test_blocks_are_scored_beside_random_rows(tmp_path: Path) -> None:
    table, model = tmp_path / "rows.parquet", tmp_path / "model.sswim"
    sphere_rows().to_parquet(table)
    options = ("--target", "height", "--coordinates", "lon,lat", *FAST)
    succeed("fit", table, "--out", model, *options)
    scored = succeed("evaluate", model, table, "--blocks", "10", "--folds", "2")
    assert "blocks, fold 2 of 2: RMSE" in scored.stderr
    found = evaluate_table_blocks(*load_model(model), table, 10.0, n_folds=2)
    for scores in (found.blocks, found.random):
        assert f"{scores.rmse:.6g}" in line_of(scored.stdout, "RMSE")
    assert f"{found.n_blocks} blocks" in scored.stdout


def test_importance_is_a_table_of_columns(
    model: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "SHUFFLED_ROWS", 20)
    shown = succeed("evaluate", model, table, "--importance").stdout
    assert shown.index("coverage of 90%") < shown.index("±")  # scores come first
    found = permutation_importance(*load_model(model), table)
    lines = [line for line in shown.splitlines() if "±" in line]
    for line, column in zip(lines, found.columns, strict=True):
        assert f" {column.name} " in line
        for score in (column.rmse, column.mnlp):
            assert f"{score.mean:+.3g} ± {score.deviation:.1g}" in line
    assert len(lines) == 2
    assert "(20 of 60 rows)" in " ".join(shown.split())
