"""Output warps and input-dependent noise on data whose true densities are known.

Run ``python examples/honest_densities.py``. It prints the scores quoted in docs/densities.md, and
writes them and the pictures to files.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from rich.console import Console
from rich.table import Table
from scipy import stats

from sswim import WarpedGPRegressor
from sswim.files.output_files import atomic_write, require_folder
from sswim.plotting import (
    CYCLE,
    INK,
    plot_calibration,
    plot_noise,
    plot_output_map,
    plot_pit,
    plot_prediction,
    png,
)

Vector = Float64[np.ndarray, " N"]

SEED = 0
N_ROWS, N_TEST_ROWS = 800, 4000
COVERAGE = 0.9
N_PARTS = 4
"""Number of equal parts of the input's range in which coverage is counted."""

COMMON: dict[str, Any] = {"depth": 0, "n_components": 128, "random_state": SEED}
WARP: dict[str, Any] = {"output_warp": "sinh-arcsinh"}
NOISE: dict[str, Any] = {"noise": "input-dependent"}


@dataclass(frozen=True)
class Simulation:
    """A distribution of rows: z = centre(x) + spread(x)·ε; y = e^z if positive, else z."""

    formula: str
    bounds: tuple[float, float]
    """Range of the input, which is uniform."""
    centre: Callable[[Vector], Vector]
    spread: Callable[[Vector], Vector]
    positive: bool
    models: dict[str, dict[str, Any]]
    """Settings of the models to compare, by name."""

    def draw(self, n: int, random: np.random.Generator) -> tuple[Vector, Vector]:
        """Return the inputs and targets of random rows."""
        x = random.uniform(*self.bounds, n)
        z = self.centre(x) + self.spread(x) * random.normal(size=n)
        return x, np.exp(z) if self.positive else z


SIMULATIONS = {
    "skewed": Simulation(
        formula="y = exp(sin 2x + 0.5ε), x uniform on [-3, 3]",
        bounds=(-3.0, 3.0),
        centre=lambda x: np.sin(2 * x),
        spread=lambda x: np.full_like(x, 0.5),
        positive=True,
        models={
            "plain": {},
            "plain, 500 steps": {"max_iter": 500},
            "output warp": WARP,
            "output warp, 500 steps": WARP | {"max_iter": 500},
            "output warp, tanh": {"output_warp": "tanh"},
        },
    ),
    "growing": Simulation(
        formula="y = sin 2x + (0.05 + 0.12x)ε, x uniform on [0, 4]",
        bounds=(0.0, 4.0),
        centre=lambda x: np.sin(2 * x),
        spread=lambda x: 0.05 + 0.12 * x,
        positive=False,
        models={"constant noise": {}, "input-dependent noise": NOISE},
    ),
    "both": Simulation(
        formula="y = exp(sin 2x + (0.1 + 0.2x)ε), x uniform on [0, 4]",
        bounds=(0.0, 4.0),
        centre=lambda x: np.sin(2 * x),
        spread=lambda x: 0.1 + 0.2 * x,
        positive=True,
        models={
            "plain": {},
            "output warp": WARP,
            "input-dependent noise": NOISE,
            "both": WARP | NOISE,
        },
    ),
}
"""Simulations by name; ε is standard normal noise."""


@dataclass(frozen=True)
class Scores:
    """Scores of predictions of the test rows."""

    rmse: float
    mnlp: float
    coverage: float
    """Fraction of rows within their 90 % intervals."""
    coverage_of_parts: tuple[float, ...]
    """Coverage in each part of the input's range, from left to right."""


def score(
    simulation: Simulation,
    x: Vector,
    y: Vector,
    mean: Vector,
    log_density: Vector,
    cdf: Vector,
) -> Scores:
    """Return the scores of predictions, rounded to four digits."""
    within = np.abs(cdf - 0.5) <= 0.5 * COVERAGE
    low, high = simulation.bounds
    part = np.floor(N_PARTS * (x - low) / (high - low))
    return Scores(
        rmse=round(float(np.sqrt(np.mean((mean - y) ** 2))), 4),
        mnlp=round(-float(np.mean(log_density)), 4),
        coverage=round(float(np.mean(within)), 4),
        coverage_of_parts=tuple(
            round(float(np.mean(within[part == chosen])), 4) for chosen in range(N_PARTS)
        ),
    )


def score_model(simulation: Simulation, model: WarpedGPRegressor, x: Vector, y: Vector) -> Scores:
    """Return the scores of a model."""
    X = x[:, None]
    mean = np.asarray(model.predict(X))
    return score(simulation, x, y, mean, model.log_density(X, y), model.cdf(X, y))


def score_truth(simulation: Simulation, x: Vector, y: Vector) -> Scores:
    """Return the scores of the true distribution, which no model can beat on average."""
    centre, spread = simulation.centre(x), simulation.spread(x)
    mean, z, log_slope = centre, y, np.zeros_like(y)
    if simulation.positive:
        mean, z, log_slope = np.exp(centre + 0.5 * spread**2), np.log(y), -np.log(y)
    true = stats.norm(centre, spread)
    return score(simulation, x, y, mean, true.logpdf(z) + log_slope, true.cdf(z))


@dataclass(frozen=True)
class Outcome:
    """Rows of a simulation, the models fitted to them, and their scores on other rows."""

    simulation: Simulation
    x: Vector
    y: Vector
    test_x: Vector
    test_y: Vector
    models: dict[str, WarpedGPRegressor]
    scores: dict[str, Scores]


def fit_all(simulation: Simulation) -> Outcome:
    """Draw rows, fit every model to them, and score the models on other rows."""
    random = np.random.default_rng(SEED)
    x, y = simulation.draw(N_ROWS, random)
    test_x, test_y = simulation.draw(N_TEST_ROWS, random)
    models = {
        name: WarpedGPRegressor(**COMMON | settings).fit(x[:, None], y)
        for name, settings in simulation.models.items()
    }
    scores = {
        name: score_model(simulation, model, test_x, test_y) for name, model in models.items()
    }
    scores["the truth"] = score_truth(simulation, test_x, test_y)
    return Outcome(simulation, x, y, test_x, test_y, models, scores)


def skewed_figure(outcome: Outcome) -> Figure:
    """Draw predictions of two models, the learnt output warp, and the calibration of densities."""
    figure, panels = five_panels()
    plain, warped = (outcome.models[f"{name}, 500 steps"] for name in ("plain", "output warp"))
    draw_predictions(outcome, {panels["a"]: plain, panels["b"]: warped})
    for letter in "ab":
        panels[letter].set_ylim(top=14)  # room for the legend
        panels[letter].legend(frameon=False, fontsize="small", ncols=2, loc="upper center")
    plot_output_map(warped, outcome.y, ax=panels["c"])
    y = np.linspace(outcome.y.min(), outcome.y.max(), 600)
    # Only the shapes can be compared: a regression does not depend on scale and origin.
    slope, level = np.polyfit(np.log(y), warped.warp_targets(y), 1)
    panels["c"].plot(
        y, level + slope * np.log(y), color=CYCLE[1], lw=1.2, ls=":", label="log, scaled"
    )
    panels["c"].legend(frameon=False, fontsize="small", loc="upper left")
    for letter, model in (("d", plain), ("e", warped)):
        plot_pit(model, outcome.test_x[:, None], outcome.test_y, ax=panels[letter])
    share_range(panels["d"], panels["e"])
    titles = {
        "a": "(a) plain",
        "b": "(b) with an output warp",
        "c": "(c) the learnt output warp",
        "d": "(d) PIT of (a)",
        "e": "(e) PIT of (b)",
    }
    for letter, title in titles.items():
        panels[letter].set_title(title, loc="left")
    return figure


def growing_figure(outcome: Outcome) -> Figure:
    """Draw predictions of two models, their noise, and the calibration of their intervals."""
    figure, panels = five_panels()
    constant, varying = outcome.models.values()
    draw_predictions(outcome, {panels["a"]: constant, panels["b"]: varying})
    plot_noise(varying, outcome.x[:, None], ax=panels["c"])
    panels["c"].get_lines()[0].set_label("input-dependent")
    x = np.linspace(*outcome.simulation.bounds, 600)
    panels["c"].plot(
        x, constant.predict_noise(x[:, None]), color=CYCLE[1], lw=1.2, label="constant"
    )
    panels["c"].plot(x, outcome.simulation.spread(x), color=INK, lw=0.8, ls="--", label="true")
    panels["c"].set_ylim(top=0.6)
    panels["c"].legend(frameon=False, fontsize="small", loc="upper left")
    for letter, model in (("d", constant), ("e", varying)):
        plot_calibration(model, outcome.test_x[:, None], outcome.test_y, ax=panels[letter])
    titles = {
        "a": "(a) constant noise",
        "b": "(b) input-dependent noise",
        "c": "(c) the learnt noise",
        "d": "(d) calibration of (a)",
        "e": "(e) calibration of (b)",
    }
    for letter, title in titles.items():
        panels[letter].set_title(title, loc="left")
    return figure


def five_panels() -> tuple[Figure, dict[str, Axes]]:
    """Return a new figure with two panels above three square ones."""
    figure = Figure(figsize=(11, 7.5), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
    panels = figure.subplot_mosaic("aaabbb\nccddee")
    for letter in "cde":
        panels[letter].set_box_aspect(1)
    return figure, panels


def draw_predictions(outcome: Outcome, panels: dict[Axes, WarpedGPRegressor]) -> None:
    """Draw each model's prediction into its panel, with a common vertical range."""
    for ax, model in panels.items():
        plot_prediction(model, outcome.x[:, None], outcome.y, level=COVERAGE, ax=ax)
    share_range(*panels)


def share_range(*panels: Axes) -> None:
    """Give panels a common vertical range, which contains the range of each."""
    limits = [ax.get_ylim() for ax in panels]
    for ax in panels:
        ax.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))


def score_table(name: str, outcome: Outcome) -> Table:
    """Return a table of the scores of every model of a simulation."""
    table = Table(title=f"{name}: {outcome.simulation.formula}", title_justify="left")
    columns = ("model", "RMSE", "MNLP", "coverage", "by quarter of the input")
    for column in columns:
        table.add_column(column, justify="left" if column == "model" else "right")
    for model, scores in outcome.scores.items():
        parts = " ".join(f"{share:.2f}" for share in scores.coverage_of_parts)
        numbers = (f"{scores.rmse:.3f}", f"{scores.mnlp:.3f}", f"{scores.coverage:.3f}")
        table.add_row(model, *numbers, parts)
    return table


def as_json(outcomes: dict[str, Outcome]) -> str:
    """Return the settings and the scores as JSON."""
    content = {
        "made_by": "python examples/honest_densities.py",
        "settings": COMMON,
        "seed": SEED,
        "rows": N_ROWS,
        "test_rows": N_TEST_ROWS,
        "examples": {
            name: {
                "formula": outcome.simulation.formula,
                "models": outcome.simulation.models,
                "scores": {model: asdict(scores) for model, scores in outcome.scores.items()},
            }
            for name, outcome in outcomes.items()
        },
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Fit the models, print the scores and write the files."""
    parser = argparse.ArgumentParser(description="Run the worked examples of docs/densities.md.")
    parser.add_argument(
        "--out", type=Path, default=Path("docs/images"), help="folder of the pictures"
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("results/densities-examples.json"),
        help="result file",
    )
    arguments = parser.parse_args()
    pictures = {
        "skewed": arguments.out / "densities-skewed.png",
        "growing": arguments.out / "densities-growing.png",
    }
    for path in (arguments.results, *pictures.values()):
        require_folder(path)

    console = Console()
    outcomes = {}
    for name, simulation in SIMULATIONS.items():
        outcomes[name] = fit_all(simulation)
        console.print(score_table(name, outcomes[name]))
    contents = {
        pictures["skewed"]: png(skewed_figure(outcomes["skewed"])),
        pictures["growing"]: png(growing_figure(outcomes["growing"])),
        arguments.results: as_json(outcomes).encode(),
    }
    for path, content in contents.items():
        with atomic_write(path) as temporary:
            temporary.write_bytes(content)
        console.print(f"Wrote {path}", soft_wrap=True, markup=False, highlight=False)


if __name__ == "__main__":
    main()
