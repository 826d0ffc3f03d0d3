"""The command ``sswim info``."""

from __future__ import annotations

from pathlib import Path

from builders.commands import invoke, write_price_model


def test_info_describes_a_model(tmp_path: Path) -> None:
    told = invoke("info", write_price_model(tmp_path))
    assert told.exit_code == 0
    for word in ("price", "colour (category)", "rows seen", "60", "max_iter"):
        assert word in told.output
