"""The score table as CSV."""

from __future__ import annotations

import csv
import io
import math

import pytest
from lab_builders.bench import score_table
from sswim_lab.paper.formats import csv_table


def test_csv_table() -> None:
    lines = list(csv.DictReader(io.StringIO(csv_table(score_table()))))
    assert len(lines) == 3 * 4 * 2
    assert lines[0] == {
        "set": "airfoil",
        "method": "sswim1-paper",
        "metric": "RMSE",
        "mean": repr((0.2 + 0.24) / 2),
        "sd": lines[0]["sd"],
        "repeats": "2",
        "failures": "1",
        "published_mean": "0.238",
        "published_sd": "0.026",
        "z": lines[0]["z"],
    }
    assert float(lines[0]["sd"]) == pytest.approx(0.04 / math.sqrt(2))
    failed = next(line for line in lines if line["method"] == "dkl")
    assert [failed[name] for name in ("mean", "sd", "repeats", "failures", "z")] == [
        *("", "", "0", "1", "")
    ]
    alone = next(line for line in lines if line["method"] == "sswim")
    assert [alone[name] for name in ("mean", "sd", "published_mean")] == ["0.21", "", ""]
