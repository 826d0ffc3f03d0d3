"""Data sets and methods that cannot be requested for a figure."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from builders.figures import matplotlib_left_alone  # noqa: F401 (for every test)
from lab_builders.bench import make_request
from sswim_lab.paper.figures import overfitting, variants


@pytest.mark.parametrize("module", ["warp_1d", "gramacy"])
@pytest.mark.parametrize("choice", [{"sets": ("airfoil",)}, {"methods": ("sswim",)}])
def test_a_figure_with_its_own_rows_takes_no_sets_or_methods(
    module: str, choice: dict[str, Any], tmp_path: Path
) -> None:
    request, _ = make_request(tmp_path, quick=True, **choice)
    with pytest.raises(ValueError, match="has its own rows and model"):
        import_module(f"sswim_lab.paper.figures.{module}").run(request)


@pytest.mark.parametrize("run", [variants.PSEUDO_POINTS.run, variants.DEPTH.run, overfitting.run])
def test_other_methods_raise_an_error(run: Any, tmp_path: Path) -> None:
    request, _ = make_request(tmp_path, quick=True, methods=("sswim",))
    with pytest.raises(ValueError, match=r"The methods of figure-.* must be among paper-.*-quick"):
        run(request)
    assert not request.out.exists()
