"""The example of docs/learnt.md runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import effects
import matplotlib.pyplot as plt
import pytest
import relevance
from json_lines import read_lines

PAGE = Path(__file__).parents[3] / "docs" / "learnt.md"


def test_the_example_finds_what_matters() -> None:
    text = PAGE.read_text(encoding="utf-8")
    [block] = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "example"}
    exec(block, names)
    plt.close("all")
    assert names["relevance"].order == [0, 1, 2]
    assert names["importance"].columns[0].name == "x0"
    assert names["pair"].mean.shape == (10, 10)


@pytest.mark.parametrize(("script", "name"), [(relevance, "relevance"), (effects, "effects")])
def test_tables_are_those_that_the_scripts_print(script: ModuleType, name: str) -> None:
    found = read_lines(PAGE.parents[1] / "lab" / "results" / f"{name}.jsonl")
    printed = (
        f"<!-- made by: python lab/benchmarks/{name}.py --table -->\n\n{script.table_of(found)}\n"
    )
    assert printed in PAGE.read_text(encoding="utf-8")
