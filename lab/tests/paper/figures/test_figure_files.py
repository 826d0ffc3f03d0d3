"""Files of figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders.figures import matplotlib_left_alone  # noqa: F401 (for every test)
from matplotlib.figure import Figure
from sswim_lab.paper.figures.curves import write_figure


def test_the_same_figure_makes_the_same_files(tmp_path: Path) -> None:
    contents = []
    for name in ("one", "two"):
        figure = Figure()
        figure.subplots().plot([1, 2])
        contents.append([path.read_bytes() for path in write_figure(figure, tmp_path, name)])
    assert contents[0] == contents[1]


def test_an_interruption_leaves_the_picture_that_was_there(tmp_path: Path) -> None:
    class Interrupted(Figure):
        def savefig(self, *arguments: Any, **others: Any) -> None:
            super().savefig(*arguments, **others)
            raise KeyboardInterrupt

    before = [path.read_bytes() for path in write_figure(Figure(), tmp_path, "picture")]
    with pytest.raises(KeyboardInterrupt):
        write_figure(Interrupted(figsize=(1, 1)), tmp_path, "picture")
    names = ("picture.png", "picture.pdf")
    assert [(tmp_path / name).read_bytes() for name in names] == before
    assert len(list(tmp_path.iterdir())) == 2
