"""The figure of scores at every step of training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders.figures import (
    check_figure_files,
    matplotlib_left_alone,  # noqa: F401 (for every test here)
    only_curve,
    score_panels,
)
from lab_builders.bench import make_request
from sswim_lab.bench.accuracy import SYNTHETIC, Job, run_fit
from sswim_lab.bench.results import read_rows
from sswim_lab.paper.figures import overfitting
from sswim_lab.paper.figures.overfitting import StepScores

STEPS_FILE = "figure-overfitting.csv"


def test_scores_of_steps_end_at_those_of_the_bench(tmp_path: Path) -> None:
    request, _ = make_request(tmp_path, quick=True, repeats=None)
    check_figure_files("figure-overfitting", overfitting.run(request), request.out)
    scores = read_rows(request.out / STEPS_FILE, StepScores)
    assert [each.step for each in scores] == list(range(1, 16))
    end = run_fit(scores[-1].job, "cpu", None)
    last = scores[-1]
    assert (last.rmse, last.mnlp, last.coverage_90) == pytest.approx(
        (end.rmse, end.mnlp, end.coverage_90)
    )
    assert scores[0].rmse > last.rmse


def test_steps_go_on_after_an_interruption(tmp_path: Path) -> None:
    request, said = make_request(tmp_path, quick=True, repeats=2)

    def interrupt(line: str) -> None:
        if line.startswith("1 of 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        overfitting.run(replace(request, notify=interrupt))
    path = request.out / STEPS_FILE
    first = path.read_bytes()
    assert {each.repeat for each in read_rows(path, StepScores)} == {0}
    assert [each.name for each in request.out.iterdir()] == [STEPS_FILE]
    overfitting.run(request)
    assert said[0] == "1 fits to do, 1 done before."
    both = path.read_bytes()
    assert both.startswith(first)
    assert len(read_rows(path, StepScores)) == 30
    overfitting.run(request)
    assert path.read_bytes() == both


def test_another_process_scores_steps_as_this_one_does(tmp_path: Path) -> None:
    scores = []
    for workers in (1, 2):
        out = tmp_path / str(workers)
        request, _ = make_request(tmp_path, quick=True, repeats=1, workers=workers, out=out)
        overfitting.run(request)
        scores.append(read_rows(out / STEPS_FILE, StepScores))
    one, two = scores
    assert [(each.job, each.step) for each in one] == [(each.job, each.step) for each in two]
    assert [each.rmse for each in one] == pytest.approx([each.rmse for each in two])


def test_a_fit_that_fails_is_noted_and_can_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*arguments: Any) -> Any:
        raise FileNotFoundError("no rows")

    request, said = make_request(tmp_path, quick=True, repeats=1)
    path = request.out / STEPS_FILE
    with monkeypatch.context() as patch:
        patch.setattr(overfitting, "load_split", missing)
        assert overfitting.run(request) == [path]
    [noted] = read_rows(path, StepScores)
    assert (noted.step, noted.failure) == (0, "FileNotFoundError: no rows")
    [failure] = request.failures
    assert failure.job == Job(SYNTHETIC, "paper-k1280-quick", 0)
    assert failure.failure == noted.failure
    assert said[-1] == "figure-overfitting is not drawn, because no fit worked."

    overfitting.run(request)
    assert len(read_rows(path, StepScores)) == 1
    assert len(overfitting.run(replace(request, retry=True))) == 3
    assert len(read_rows(path, StepScores)) == 16
    overfitting.run(replace(request, retry=True))
    assert said[-1] == "0 fits to do, 1 done before."


def test_a_failed_fit_has_one_row_at_step_zero() -> None:
    [scores] = overfitting._failed_scores(Job("airfoil", "paper-k1280", 3), "exit code -9")
    assert scores.job == Job("airfoil", "paper-k1280", 3)
    assert (scores.step, scores.failure) == (0, "exit code -9")


def test_the_curves_of_steps_are_means_over_repeats() -> None:
    scores = [
        StepScores("airfoil", "paper-k1280", repeat, step, float(step + repeat), -float(step), 0.9)
        for repeat in (0, 2)
        for step in (1, 2, 3)
    ]
    [error], [density] = score_panels(overfitting.draw(scores), 1)
    assert only_curve(error) == ([1, 2, 3], [2, 3, 4])
    assert only_curve(density) == ([1, 2, 3], [-1, -2, -3])
    vertices = np.asarray(error.collections[0].get_paths()[0].vertices)
    assert vertices[:, 1].max() == pytest.approx(4 + 2**0.5)
    later = [replace(each, rmse=7.0) for each in scores[:3]]
    [error], _ = score_panels(overfitting.draw([*scores, *later]), 1)
    assert only_curve(error)[1] == [5, 5.5, 6]
