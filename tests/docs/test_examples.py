"""Tests that the examples run."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def load_example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / name), run_name="example")


@pytest.mark.slow
def test_streamed_and_held_rows_give_the_same_model(tmp_path: Path) -> None:
    example = load_example("stream.py")
    x, y = example["draw"](100)
    held, *others = (
        np.asarray(model.predict(example["as_table"](x)))
        for model in example["fit_all"](tmp_path).values()
    )
    assert len(others) == 3
    for mean in others:
        np.testing.assert_allclose(mean, held, atol=1e-9)
    assert np.sqrt(np.mean((held - y) ** 2)) < 1.2 * example["NOISE"]
    assert [path.name for path in tmp_path.iterdir()] == ["table"]


def test_input_dependent_noise_has_the_better_densities() -> None:
    example = load_example("honest_densities.py")
    outcome = example["fit_all"](example["SIMULATIONS"]["growing"])
    constant, varying, truth = (scores.mnlp for scores in outcome.scores.values())
    assert truth < varying < constant
    assert outcome.scores["the truth"].coverage == pytest.approx(0.9, abs=0.02)
    figure = example["growing_figure"](outcome)
    assert [ax.get_title(loc="left")[:3] for ax in figure.axes] == [f"({x})" for x in "abcde"]


def test_maps_of_several_dates_follow_the_truth() -> None:
    example = load_example("space_time.py")
    rows = example["measure"](n_days=60, n_stations=40)
    grids = example["draw_maps"](example["fit"](rows, max_iter=40), spacing=4.0)[:2]
    for grid in grids:
        error = np.sqrt(np.mean((grid["mean"] - grid["truth"]) ** 2))
        assert error < 0.3 * grid["truth"].std()
    assert example["describe"](grids[0]).startswith("2023-02-10: RMSE of the mean")
    assert len(example["figure"](rows, grids).axes) == 12


def test_a_failing_sensor_is_noticed() -> None:
    example = load_example("drift.py")
    report = example["watch"]()
    assert example["FAILURE"] <= report.alarm_row < example["FAILURE"] + 200
    assert abs(report.change_row - example["FAILURE"]) < 50
    assert [alarm.part for alarm in report.alarms] == ["targets"]
    assert len(example["draw"](report).axes) == 4


@pytest.mark.filterwarnings("ignore:BoTorchSampler is experimental")
@pytest.mark.filterwarnings("ignore:Optimization failed:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:A not p.d.")
@pytest.mark.parametrize(("library", "needed"), [("ax", "ax"), ("optuna", "optuna_integration")])
def test_optimisers_improve_on_their_first_trials(library: str, needed: str) -> None:
    pytest.importorskip(needed, reason=f"needs the extra {library}")
    example = load_example(f"optimise_with_{library}.py")
    losses = [
        float(example["describe"](example["optimise"](n_trials)).split()[5])
        for n_trials in (example["N_INITIAL"], example["N_INITIAL"] + 6)
    ]
    assert -3.01 < losses[1] < losses[0] - 0.3
