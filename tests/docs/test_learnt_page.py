"""The example of docs/learnt.md runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

PAGE = Path(__file__).parents[2] / "docs" / "learnt.md"


def test_the_example_finds_what_matters() -> None:
    text = PAGE.read_text(encoding="utf-8")
    [block] = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "example"}
    exec(block, names)
    plt.close("all")
    assert [names["relevance"].names[place] for place in names["relevance"].order[:2]] == [
        "x0",
        "x1",
    ]
    assert names["importance"].columns[0].name == "x0"
    assert names["pair"].mean.shape == (10, 10)
