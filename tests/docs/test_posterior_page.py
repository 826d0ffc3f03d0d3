"""The example of docs/posterior.md runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "posterior.md"


def test_the_example_climbs() -> None:
    text = PAGE.read_text(encoding="utf-8")
    [block] = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "example"}
    exec(block, names)
    before, after = (
        names["model"].posterior(names[name].detach()).mean for name in ("starts", "points")
    )
    assert (after > before).double().mean() > 0.5
    assert names["values"].shape == (8, 5, 1)
