from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from builders.commands import succeed
from matplotlib import pyplot as plt
from PIL import Image
from rich.console import Console

import sswim
from sswim.cli import demo
from sswim.cli.demo import EXPLANATION, OWN_TABLE_CODE, demo_regressor, draw_rows, run_demo
from sswim.estimator import BaseRegressor, WarpedGPRegressor
from sswim.estimator.evaluation import Scores


@dataclass(frozen=True)
class Outcome:
    """Results, output and folder of a run."""

    results: list[Scores]
    printed: str
    folder: Path

    def cells(self) -> list[list[str]]:
        """Return the cells of the table, without those of the seconds."""
        return [
            [name, *(f"{value:.3f}" for value in (scores.rmse, scores.mnlp, scores.coverage))]
            for name, scores in zip(demo.MODELS, self.results, strict=True)
        ]


def hardly_trained(depth: int | None) -> BaseRegressor:
    return WarpedGPRegressor(
        depth=depth or 0, n_components=16, n_pseudo=4, max_iter=2, random_state=0
    )


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Run the demo once, without the ensemble, which takes most of its time."""
    return run_in(
        tmp_path_factory.mktemp("demo"),
        lambda depth: hardly_trained(depth) if depth is None else demo_regressor(depth),
    )


def run_in(folder: Path, make: Any = demo_regressor) -> Outcome:
    stream = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "demo_regressor", make)
        results = run_demo(folder, Console(file=stream, width=80))
    return Outcome(results, stream.getvalue(), folder)


def check_scores(stationary: Scores, warped: Sequence[Scores]) -> None:
    """Check that warps help, that nothing beats the noise, and that intervals cover targets."""
    for result in warped:
        assert demo.NOISE < result.rmse < 0.6 * stationary.rmse
        assert result.mnlp < stationary.mnlp - 0.5
    for result in (stationary, *warped):
        assert 0.8 < result.coverage < 0.98


def test_warps_help_on_the_demo_signal_and_scores_are_printed(outcome: Outcome) -> None:
    stationary, one_warp, two_warps, _ = outcome.results
    check_scores(stationary, [one_warp, two_warps])
    for cells in outcome.cells():
        (line,) = (line for line in outcome.printed.splitlines() if cells[0] in line)
        assert [cell.strip() for cell in line.strip("│").split("│")][:-1] == cells
    for name in ("demo.png", "demo.html"):
        assert f"Wrote {outcome.folder / name}\n" in outcome.printed


@pytest.mark.slow
def test_the_ensemble_helps_as_single_warped_models_do(tmp_path: Path) -> None:
    stationary, *others = run_in(tmp_path).results
    check_scores(stationary, others)


def test_only_the_picture_and_the_page_are_written_into_a_new_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "demo_regressor", hardly_trained)
    figures, folder = plt.get_fignums(), tmp_path / "new" / "folder"
    succeed("demo", "--out", folder)
    assert sorted(path.name for path in folder.iterdir()) == ["demo.html", "demo.png"]
    assert plt.get_fignums() == figures


def test_the_picture_is_not_blank_and_the_page_has_it_the_table_and_the_lines(
    outcome: Outcome,
) -> None:
    with Image.open(outcome.folder / "demo.png") as picture:
        assert (picture.format, picture.size) == ("PNG", (1500, 1050))
        grey = np.asarray(picture.convert("L"))
    quarters = [grey[i : i + 525, j : j + 750] for i in (0, 525) for j in (0, 750)]
    assert all((quarter < 200).mean() > 0.01 for quarter in quarters)
    html = (outcome.folder / "demo.html").read_text(encoding="utf-8")
    assert "data:image/png;base64," in html
    assert not any(word in html for word in ("http:", "https:", "<script"))
    for cells in outcome.cells():
        assert all(f">{escape(cell)}</td>" in html for cell in cells)
    assert escape(EXPLANATION) in html
    assert escape(OWN_TABLE_CODE) in html


def test_the_lines_of_the_page_run(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = partial(WarpedGPRegressor, n_components=32, n_pseudo=8, max_iter=2)
    monkeypatch.setattr(sswim, "SSWIMRegressor", quick)
    X, y = draw_rows(40, torch.Generator().manual_seed(0))
    names: dict[str, Any] = {"table": pd.DataFrame({"x": X[:, 0], "y": y})}
    exec(OWN_TABLE_CODE, names)
    assert len(OWN_TABLE_CODE.splitlines()) == 3
    assert np.all(names["lower"] < names["upper"])
