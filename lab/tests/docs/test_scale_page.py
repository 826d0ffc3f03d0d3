"""The tables of docs/scale.md are those that the scripts make of the stored results."""

from __future__ import annotations

import json
from pathlib import Path

import large
import pytest
import scale
import scale_estimate
from csv_rows import read_rows

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "lab" / "results"
PAGE = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["scale.csv", "scale-cuda.csv"])
def test_rows_against_seconds(name: str) -> None:
    assert scale.markdown(read_rows(RESULTS / name)) in PAGE


def test_large_tables() -> None:
    assert large.markdown(read_rows(RESULTS / "large.csv")) in PAGE


def test_what_more_rows_would_take() -> None:
    assert scale_estimate.markdown(scale_estimate.read(RESULTS / "scale-cuda.csv")) in PAGE


def test_every_kill_was_survived() -> None:
    lines = (RESULTS / "kills.jsonl").read_text(encoding="utf-8").splitlines()
    kills = [json.loads(line) for line in lines]
    assert all(kill["equal"] for kill in kills)
    assert f"{len(kills)} times" in PAGE


def test_an_estimate_is_linear_in_the_rows_of_a_gpu() -> None:
    measured = scale_estimate.Measured(10, 512, 64, held=5e-8, streamed=1e-6)
    assert measured.bytes_per_row == 48
    sent = measured.reduced_bytes()
    assert sent > 8 * 512**2
    few, many = (scale_estimate.exchange_seconds(sent, n) for n in (8, 512))
    assert few < many < 3 * few


def test_rows_are_written_once_and_found_again(tmp_path: Path) -> None:
    scale.write_rows(tmp_path, 1000, 3)
    [file] = tmp_path.iterdir()
    written = file.stat().st_mtime_ns
    scale.write_rows(tmp_path, 1000, 3)
    assert file.stat().st_mtime_ns == written
    case = scale.Case(1000, 1, 1, streamed=True, columns=3, features=8, pseudo=2)
    result = scale.measure(tmp_path, case, 2, "cpu")
    assert result is not None
    assert result["steps"] == 2
    assert result["seconds_per_step"] > 0
