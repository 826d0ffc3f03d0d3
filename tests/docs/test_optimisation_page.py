"""The loop of docs/optimisation.md runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

PAGE = Path(__file__).parents[2] / "docs" / "optimisation.md"


@pytest.mark.filterwarnings("ignore:Optimization failed in")  # BoTorch tries again by itself
def test_the_loop_finds_the_optimum() -> None:
    pytest.importorskip("botorch", reason="needs the extra botorch")
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    [loop] = [block for block in blocks if "for _ in range" in block and "optimize_acqf" in block]
    names: dict[str, Any] = {"__name__": "example"}
    with torch.random.fork_rng(devices=[]):
        exec(loop, names)
    assert len(names["X"]) == 18
    assert names["Y"].max() > max(-0.05, names["Y"][:8].max())
    assert (names["best"] - torch.tensor([0.08, 0.6])).abs().max() < 0.2
