"""The example of docs/gpytorch.md runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

PAGE = Path(__file__).parents[2] / "docs" / "gpytorch.md"


def test_the_example_learns_a_warp() -> None:
    pytest.importorskip("gpytorch", reason="needs the extra gpytorch")
    text = PAGE.read_text(encoding="utf-8")
    [block] = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "example"}
    exec(block, names)
    new, mean = names["new"], names["prediction"].mean
    truth = torch.where(new < 0, new, torch.sin(12 * new)).squeeze(-1)
    assert (mean - truth).square().mean() < 0.1 * truth.var()
    assert (names["warped"].mean - new).abs().max() > 0.1
