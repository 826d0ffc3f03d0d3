"""The results file."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from lab_builders.bench import row
from sswim_lab.bench.accuracy import Row
from sswim_lab.bench.results import append_results, columns, read_results

COLUMNS = columns(Row)
HEADER = (
    "set,method,repeat,rmse,mnlp,mse_original,mnlp_original,crps,crps_original,coverage_90,fit_seconds,"
    "predict_seconds,n_train,n_test,n_inputs,device,settings,version,failure"
)


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.touch()
    assert read_results(path) == []
    crps = {"crps": 0.1, "crps_original": 1e-5}
    rows = [
        row("airfoil", "a", 0, rmse=0.1 + 0.2, **crps),
        row("creep", "b", 1, mse_original=2.8e-8, **crps),
        row("airfoil", "a", 3, "RuntimeError: no luck, this time"),
    ]
    for result in rows:
        append_results(path, [result])
    *scored, failed = read_results(path)
    assert scored == rows[:2]
    assert failed.failure == "RuntimeError: no luck, this time"
    assert math.isnan(failed.rmse)
    assert path.read_text().splitlines()[0] == HEADER == ",".join(COLUMNS)
    assert len(path.read_text().splitlines()) == 4


def test_a_file_without_crps_is_read_and_gets_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    old = row("airfoil", "a", 0, rmse=0.25)
    new = row("airfoil", "a", 1, crps=0.125, crps_original=0.5)
    append_results(path, [old])
    lines = path.read_text().splitlines()
    header, values = HEADER.replace("crps,crps_original,", ""), lines[1].replace("nan,nan,", "")
    path.write_text(f"{header}\n{values}\n")
    (result,) = read_results(path)
    assert math.isnan(result.crps)
    assert result.rmse == 0.25
    append_results(path, [new])
    assert path.read_text().splitlines()[:2] == lines
    assert read_results(path)[1] == new


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,2\n", "must start with the columns set,method"),
        (",".join(COLUMNS[:-2]), "Missing: version. Move it away, or give another path (--out)."),
        (",".join((*COLUMNS, "seed", "host")), "Unexpected: seed, host. Move"),
        (",".join(("seed", *COLUMNS[1:])), "Missing: set; Unexpected: seed. Move"),
        (",".join(COLUMNS[::-1]), "The order differs. Move"),
        (f"{HEADER}\nairfoil,sswim,0,0.3\n", "Line 2 of "),
        (f"{HEADER}\n{',' * 18}\n", "is not a result"),
    ],
)
def test_other_files_raise_an_error(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=re.escape(message)):
        read_results(path)
