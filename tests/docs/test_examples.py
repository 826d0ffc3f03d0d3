"""The examples run: those of the folder, those of the gallery, and the code of the pages."""

from __future__ import annotations

import multiprocessing
import os
import re
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sswim.members import WAYS

ROOT = Path(__file__).parents[2]
GALLERY = sorted((ROOT / "examples" / "gallery").glob("*.py"))
OPTIONAL = {"bayesian_optimisation": "botorch", "map_with_gaps": "xarray"}
"""Packages that examples need beside those of sswim and of its tests."""

PRELOADED = ["matplotlib.pyplot", "pandas", "sswim.estimator.regressor", "sswim.plotting"]
"""Modules that a server imports once; the process of each example is a fork of it."""


def run_example(example: Path, picture: Path, log: Path) -> None:
    """Run an example in a process of its own, save its picture and what it prints."""
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ |= {"SSWIM_GALLERY_QUICK": "1", "OMP_NUM_THREADS": "1"}
    os.chdir(picture.parent)

    import matplotlib as mpl  # noqa: PLC0415 (imported by the server, not by the tests)

    mpl.use("agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    runpy.run_path(str(example), run_name="__main__")
    sys.stdout.flush()
    plt.gcf().savefig(picture)


@pytest.mark.parametrize("example", GALLERY, ids=lambda path: path.stem)
def test_an_example_has_a_heading_runs_quickly_and_draws(example: Path, tmp_path: Path) -> None:
    text = example.read_text(encoding="utf-8")
    _, title, line, *_ = text.splitlines()
    assert line == "=" * len(title)
    assert '"SSWIM_GALLERY_QUICK" in os.environ' in text
    package = OPTIONAL.get(example.stem)
    if package is not None and find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    picture, log = tmp_path / "picture.png", tmp_path / "log.txt"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=run_example, args=(example, picture, log))
    process.start()
    process.join(timeout=300)
    process.kill()
    assert process.exitcode == 0, log.read_text()
    assert picture.stat().st_size > 10_000


def run_page(name: str, *words: str, shorter: tuple[str, str] = ("", "")) -> dict[str, Any]:
    """Run the block of code of a page that has some words, and return its names.

    Args:
        name: Name of the page.
        words: Words of the block; none if the page has only one.
        shorter: Text of the block, and what stands in its place so that it takes less time.
    """
    [block] = [block for block in blocks_of(f"docs/{name}") if all(word in block for word in words)]
    names: dict[str, Any] = {"__name__": "example"}
    with torch.random.fork_rng(devices=[]):
        exec(block.replace(*shorter), names)
    return names


def blocks_of(page: str) -> list[str]:
    """Return the blocks of code of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_a_member_of_ones_own_is_fitted_and_weighted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WAYS, "nearest", WAYS["features"])  # which the example replaces
    names: dict[str, Any] = {"__name__": "example"}
    for block in blocks_of("CONTRIBUTING.md"):
        exec(compile(block, "CONTRIBUTING.md", "exec", dont_inherit=True), names)
    features, nearest = names["fitted_kinds"]
    assert nearest.weight > 0.5 > features.weight
    error = names["prediction"].mean.numpy() - np.sign(names["X"])
    assert np.abs(error).mean() < 0.2


def test_the_page_of_gpytorch_learns_a_warp() -> None:
    pytest.importorskip("gpytorch", reason="needs the extra gpytorch")
    names = run_page("gpytorch.md")
    new, mean = names["new"], names["prediction"].mean
    truth = torch.where(new < 0, new, torch.sin(12 * new)).squeeze(-1)
    assert (mean - truth).square().mean() < 0.1 * truth.var()
    assert (names["warped"].mean - new).abs().max() > 0.1


@pytest.mark.filterwarnings("ignore:Optimization failed in")  # BoTorch tries again by itself
def test_the_page_of_optimisation_improves() -> None:
    pytest.importorskip("botorch", reason="needs the extra botorch")
    shorter = ("range(10)", "range(4)")
    names = run_page("optimisation.md", "for _ in range(10)", "optimize_acqf", shorter=shorter)
    assert len(names["X"]) == 12
    assert names["Y"].max() > names["Y"][:8].max()
    assert names["best"].tolist() == names["X"][names["Y"].argmax()].tolist()


def test_the_page_of_posteriors_climbs() -> None:
    names = run_page("posterior.md")
    before, after = (
        names["model"].posterior(names[name].detach()).mean for name in ("starts", "points")
    )
    assert (after > before).double().mean() > 0.5
    assert names["values"].shape == (8, 5, 1)


def load_example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "examples" / name), run_name="example")


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
        for n_trials in (example["N_INITIAL"], example["N_INITIAL"] + 4)
    ]
    assert -3.01 < losses[1] < losses[0]
