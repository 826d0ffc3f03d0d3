"""The command ``sswim demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders.commands import invoke

from sswim.estimator import make_estimator

QUICK: dict[str, Any] = {"n_components": 16, "n_pseudo": 4, "max_iter": 2, "random_state": 0}


def test_demo_makes_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sswim.cli.demo.demo_regressor", lambda depth: make_estimator(depth=depth, **QUICK)
    )
    assert invoke("demo", "--out", tmp_path / "new" / "folder").exit_code == 0
    assert sorted(p.name for p in (tmp_path / "new" / "folder").iterdir()) == [
        "demo.html",
        "demo.png",
    ]
