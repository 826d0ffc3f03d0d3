"""Mistakes on the command line are one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.commands import invoke, prices

from sswim.tables import write_table


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["datasets", "boston"], "A data set must be one of"),
        (["bench", "accuracy", "--methods", "xgboost"], "A method must be one of"),
        (["bench", "accuracy", "--sets", "boston"], "A data set must be one of"),
        (["bench", "accuracy", "--workers", "0"], "workers must be at least 1"),
        (["bench", "table", "{folder}/none.csv"], "does not exist"),
        (["bench", "table", "{table}"], "must start with the columns"),
        (["reproduce", "table-9"], "An experiment must be one of"),
        (["reproduce", "all", "--methods", "sswim"], "--sets and --methods"),
        (["reproduce", "figure-warp-1d", "--sets", "concrete", "--out", "{folder}/p"], "figure"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    write_table(prices(4), table)
    result = invoke(*(word.format(table=table, folder=tmp_path) for word in arguments))
    assert result.exit_code == 1
    *_, error = result.stderr.splitlines()
    assert error.startswith("Error: ")
    assert message in error
    assert result.stdout == ""
