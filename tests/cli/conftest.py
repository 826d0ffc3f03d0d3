from __future__ import annotations

from pathlib import Path

import pytest
from builders.commands import write_price_model, write_prices


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The table of prices."""
    return write_prices(tmp_path)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of prices."""
    return write_price_model(tmp_path)
