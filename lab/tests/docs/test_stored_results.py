"""The pages show the stored results: their tables are those that commands and scripts print."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import conformal
import effects
import large
import map_blocks
import matplotlib.pyplot as plt
import monitor
import pytest
import real_tables
import relevance
import scale
import scale_estimate
import speed
from builders.commands import invoke
from scripting import RESULTS, read_lines, read_rows

ROOT = Path(__file__).parents[3]
BEGIN, END = "<!-- made by: sswim bench", "<!-- end -->"


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["README.md", "docs/optimisation.md"])
def test_tables_of_commands(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page(name)
    first_line, rest = text[text.index(BEGIN) :].split("\n", 1)
    arguments = first_line.removeprefix("<!-- made by: sswim").removesuffix("-->").split()
    monkeypatch.chdir(ROOT)
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    assert rest[: rest.index(END)].strip() == result.stdout.strip()


@pytest.mark.parametrize("name", ["table-complete", "table-output-warp"])
def test_tables_of_the_paper(name: str) -> None:
    text = page("docs/reproduce.md")
    begin = f"<!-- from lab/results/paper/{name}.md -->\n"
    shown = text[text.index(begin) + len(begin) : text.index(END, text.index(begin))]
    assert shown.strip() in (RESULTS / "paper" / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        *(("scale", scale.markdown(read_rows(RESULTS / f"scale{x}.csv"))) for x in ("", "-cuda")),
        ("scale", large.markdown(read_rows(RESULTS / "large.csv"))),
        ("scale", scale_estimate.markdown(scale_estimate.read(RESULTS / "scale-cuda.csv"))),
        ("tables", real_tables.markdown(read_lines(RESULTS / "real-tables.jsonl"))),
        ("learnt", relevance.table_of(read_lines(RESULTS / "relevance.jsonl"))),
        ("learnt", effects.table_of(read_lines(RESULTS / "effects.jsonl"))),
        ("maps", map_blocks.table(read_lines(RESULTS / "map-blocks.jsonl"))),
        ("monitoring", monitor.table(read_lines(RESULTS / "monitor.jsonl"))),
        *(("speed", speed.table(read_rows(RESULTS / f"speed-{x}.csv"))) for x in ("cpu", "cuda")),
    ],
)
def test_tables_of_scripts(name: str, printed: str) -> None:
    assert printed in page(f"docs/{name}.md")


def test_tables_of_intervals() -> None:
    shown = page("docs/conformal.md").splitlines()
    assert set(conformal.tables(read_lines(RESULTS / "conformal.jsonl"))) <= set(shown)


def test_every_kill_was_survived() -> None:
    lines = (RESULTS / "kills.jsonl").read_text(encoding="utf-8").splitlines()
    assert all(json.loads(line)["equal"] for line in lines)
    assert f"{len(lines)} times" in page("docs/scale.md")


def test_the_example_finds_what_matters() -> None:
    [block] = re.findall(
        r"^```python\n(.*?)^```$", page("docs/learnt.md"), re.MULTILINE | re.DOTALL
    )
    names: dict[str, Any] = {"__name__": "example"}
    exec(block, names)
    plt.close("all")
    assert names["relevance"].order == [0, 1, 2]
    assert names["importance"].columns[0].name == "x0"
    assert names["pair"].mean.shape == (10, 10)


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
