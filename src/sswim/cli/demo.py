"""The demonstration of ``sswim demo``: models with and without warps on a 1-D signal."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from rich.console import Console
from rich.table import Table
from torch import Tensor

from sswim.cli.console import say
from sswim.estimator import BaseRegressor, SSWIMRegressor, WarpedGPRegressor
from sswim.estimator.evaluation import Scores, evaluate
from sswim.files.output_files import atomic_write, require_folder
from sswim.plotting import INPUT_COLOURS, plot_prediction, plot_warped_data, plot_warps, png
from sswim.report import page as html

NOISE = 0.1
LEVEL = 0.9
SEED = 0
MODELS: dict[str, int | None] = {
    "no warp (stationary)": 0,
    "one warp": 1,
    "two warps": 2,
    "the default, an ensemble": None,
}
"""Depth of each model by its name; None for the ensemble."""

OWN_TABLE_CODE = """\
from sswim import SSWIMRegressor
model = SSWIMRegressor(random_state=0).fit(table[["x"]], table["y"])
lower, upper = model.predict_interval(table[["x"]], level=0.9)
"""
"""Code for a data frame ``table`` with columns x and y."""

EXPLANATION = (
    "The signal has abrupt steps, then a slow wave, then a chirp that gets ever faster (a), so no "
    "single length-scale suits all of it. "
    "The warp (b) is learnt from these rows: it stretches the input at the steps and towards the "
    "end of the chirp, where the signal changes fastest, and the band shows what remains uncertain "
    "about it. "
    "After the warp the signal varies more evenly (c), and a stationary model of the warped input "
    "can follow steps, wave and chirp alike (d); the pale band should hold nine of ten new "
    "observations, and the dark one the function itself."
)

TITLE = "Sparse spectrum warped input measures: what warps add"


COLUMNS = ("model", "RMSE", "MNLP", f"{100 * LEVEL:.0f} % coverage", "seconds")


def run_demo(folder: Path, console: Console) -> list[Scores]:
    """Fit models without and with warps, print their scores, and write a figure and a page.

    Returns the scores of the models on the test rows.

    Args:
        folder: Existing folder for ``demo.png`` and ``demo.html``.
        console: Console for the table and the paths.
    """
    picture, page = folder / "demo.png", folder / "demo.html"
    require_folder(picture)
    generator = torch.Generator().manual_seed(SEED)
    X, y = draw_rows(600, generator)
    test_X, test_y = draw_rows(2000, generator)
    summary = (
        f"A 1-D signal with steps, a slow wave and a chirp: {len(y)} noisy rows, {len(test_y)} to "
        f"test on. No model can have an RMSE below the noise, {NOISE}."
    )
    console.print(summary)

    table = Table()
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "model" else "right")
    results, regressors, rows = [], [], []
    for name, depth in MODELS.items():
        with console.status(f"Training: {name}"):
            began = time.perf_counter()
            regressor = demo_regressor(depth).fit(X, y)
            scores = evaluate(regressor, test_X, test_y, LEVEL)
            seconds = time.perf_counter() - began
        results.append(scores)
        regressors.append(regressor)
        cells = (f"{value:.3f}" for value in (scores.rmse, scores.mnlp, scores.coverage))
        rows.append((name, *cells, f"{seconds:.1f}"))
        table.add_row(*rows[-1])
    console.print(table)

    image = png(four_panels(regressors[1], X, y))
    with atomic_write(picture) as temporary:
        temporary.write_bytes(image)
    html.write_page(page, demo_page(summary, image, rows))
    for path in (picture, page):
        say(console, f"Wrote {path}")
    return results


def demo_regressor(depth: int | None) -> BaseRegressor:
    """Return the default regressor, or one model of a depth."""
    if depth is None:
        return SSWIMRegressor(random_state=SEED)
    # The signal oscillates many times, so its length-scales are short.
    model = WarpedGPRegressor(depth=depth, n_components=256, n_pseudo=64, random_state=SEED)
    return model.set_params(length_scale=0.2)


def nonstationary_signal(x: Float64[Tensor, "*N"]) -> Float64[Tensor, "*N"]:
    """Return a 1-D signal on [0, 3): abrupt steps, then a slow wave, then a chirp.

    It resembles the signal with which the paper explains its warps.
    """
    steps = torch.where((3 * x).floor() % 2 == 0, -1.0, 1.0)
    wave = (2 * math.pi * (x - 1)).sin()
    chirp = (2 * math.pi * (x - 2) * (1 + 5 * (x - 2))).sin()
    return torch.where(x < 1, steps, torch.where(x < 2, wave, chirp))


def draw_rows(
    n: int, generator: torch.Generator
) -> tuple[Float64[np.ndarray, "n 1"], Float64[np.ndarray, " n"]]:
    """Draw noisy rows of the signal, uniformly on [0, 3)."""
    x = 3 * torch.rand(n, 1, generator=generator, dtype=torch.float64)
    noise = torch.randn(n, 1, generator=generator, dtype=torch.float64)
    y = nonstationary_signal(x) + NOISE * noise
    return x.numpy(), y[:, 0].numpy()


def four_panels(
    regressor: BaseRegressor, X: Float64[np.ndarray, "N 1"], y: Float64[np.ndarray, " N"]
) -> Figure:
    """Draw the paper's figure: data, warps, data after warping, prediction."""
    figure = Figure(figsize=(10, 7), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
    (data, warps), (warped, prediction) = figure.subplots(2, 2)
    data.scatter(X[:, 0], y, s=7, c=X[:, 0], cmap=INPUT_COLOURS, linewidths=0)
    data.set(xlabel="input", ylabel="target")
    data.spines[["top", "right"]].set_visible(False)
    plot_warps(regressor, X, ax=warps)
    plot_warped_data(regressor, X, y, colour_bar=False, ax=warped)
    plot_prediction(regressor, X, y, level=LEVEL, ax=prediction)
    prediction.set_ylim(top=2.4)  # room for the legend
    prediction.legend(frameon=False, fontsize="small", ncols=2, loc="upper right")
    data.set_title("(a) data", loc="left")
    warps.set_title("(b) learnt warp", loc="left")
    warped.set_title("(c) data after the warp, in the colours of (a)", loc="left")
    prediction.set_title("(d) prediction", loc="left")
    figure.align_ylabels()
    return figure


def demo_page(summary: str, image: bytes, rows: list[tuple[str, ...]]) -> str:
    """Return an HTML page: figure, explanation, table of scores, code for own data."""
    alt = (
        "Four panels: the data, the learnt warp with its uncertainty, the data after the warp, and "
        "the prediction with its intervals."
    )
    return html.html_page(
        TITLE,
        [
            html.paragraph(summary),
            html.picture(image, alt, "The model with one warp."),
            html.paragraph(EXPLANATION),
            html.table(COLUMNS, rows),
            html.paragraph(
                "RMSE is the root mean square error and MNLP the mean negative log probability of "
                "the test rows; lower is better."
            ),
            html.heading("On a table of your own"),
            html.paragraph("With a data frame called table that has the columns x and y:"),
            html.code(OWN_TABLE_CODE),
        ],
    )
