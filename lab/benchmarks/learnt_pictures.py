"""Draw the pictures of docs/learnt.md.

    python lab/benchmarks/learnt_pictures.py docs/images

``learnt-relevance.png`` and ``learnt-metric-table.png`` show a table of thirty columns, of which
ten matter; ``learnt-effects.png`` a made-up table of flats; ``learnt-metric.png`` functions of one
and of two inputs that vary fast in one region.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from relevance import Case, make_table
from scripting import script_parser

from sswim import SSWIMRegressor, WarpedGPRegressor
from sswim.plotting import plot_effect, plot_local_metric, plot_prediction, plot_relevance


def flats(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """Draw flats whose rent depends on size, distance, year, heating and time."""
    random = np.random.default_rng(seed)
    size, distance = random.gamma(9, 8, n), random.gamma(2, 3, n)
    rows = pd.DataFrame(
        {
            "size": size.round(),
            "distance": distance.round(1),
            "year": random.integers(1900, 2024, n),
            "heating": random.choice(["gas", "oil", "district", "pump"], n, p=[0.5, 0.2, 0.2, 0.1]),
            "listed": pd.Timestamp("2022-01-01") + pd.to_timedelta(random.uniform(0, 900, n), "D"),
            "floor": random.integers(0, 8, n),
        }
    )
    days = (rows["listed"] - rows["listed"].min()).dt.days
    rent = 9 * rows["size"] * (1 + np.exp(-rows["distance"] / 3)) + 0.1 * days
    rent += 100 * np.tanh((rows["year"] - 1990) / 10)
    rent += rows["heating"].map({"gas": 0, "oil": -60, "district": 40, "pump": 90})
    return rows.assign(rent=rent + 60 * random.normal(size=n))


def relevance_pictures(folder: Path) -> None:
    """Draw the relevance and the local length-scales of thirty columns."""
    table = make_table(Case("nonstationary", correlated=True, n_rows=1000, seed=0))
    words = np.where(table.relevant, "matters", "idle")
    names = [f"{word} {place}" for place, word in enumerate(words)]
    rows = pd.DataFrame(table.train_x, columns=names)
    model = SSWIMRegressor(random_state=0).fit(rows, table.train_y)
    _save(plot_relevance(model.relevance()), folder / "learnt-relevance.png")
    found = model.local_metric(rows.head(300))
    _save(plot_local_metric(found), folder / "learnt-metric-table.png")


def effect_pictures(folder: Path) -> None:
    """Draw the effects of columns of several kinds."""
    model = SSWIMRegressor(random_state=0).fit(flats(), "rent")
    figure, panels = plt.subplots(2, 3, figsize=(12, 7), layout="constrained")
    for ax, column in zip(panels.flat, ("size", "year", "heating", "listed"), strict=False):
        plot_effect(model.effect(column), ax=ax)
    plot_effect(model.effect(("size", "distance"), grid=12), ax=panels[1, 1])
    plot_effect(model.effect(("size", "heating")), ax=panels[1, 2])
    _save(figure, folder / "learnt-effects.png")


def metric_pictures(folder: Path) -> None:
    """Draw functions of one and of two inputs, and their local length-scales."""
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (200, 1))
    y = np.where(x[:, 0] < 0, x[:, 0], 0.6 * np.sin(15 * x[:, 0])) + 0.03 * random.normal(size=200)
    wave = _warped_model().fit(x, y)
    figure, panels = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    plot_prediction(wave, x, y, ax=panels[0, 0])
    plot_local_metric(wave.local_metric(np.linspace(-1, 1, 300)[:, None]), ax=panels[0, 1])
    z = random.uniform(-1, 1, (500, 2))
    ripples = np.sin(8 * z[:, 0] * (z[:, 1] > 0) + z[:, 1])
    flat = _warped_model().fit(z, ripples + 0.05 * random.normal(size=500))
    plot_effect(flat.effect((0, 1), z, grid=25, max_rows=1), ax=panels[1, 0])
    plot_local_metric(flat.local_metric(z), ax=panels[1, 1])
    _save(figure, folder / "learnt-metric.png")


def _warped_model() -> WarpedGPRegressor:
    """Make a model of four members with one warp each."""
    return WarpedGPRegressor(depth=1, n_members=4, n_components=256, n_pseudo=48, random_state=0)


def _save(drawn: Axes | Figure, path: Path) -> None:
    figure = drawn.get_figure(root=True) if isinstance(drawn, Axes) else drawn
    assert figure is not None
    figure.savefig(path, dpi=110)
    plt.close(figure)


PICTURES = {
    "relevance": relevance_pictures,
    "effects": effect_pictures,
    "metric": metric_pictures,
}


def main() -> None:
    """Draw all pictures, or one of them."""
    parser = script_parser(__doc__)
    parser.add_argument("folder", type=Path, help="where the pictures are written")
    parser.add_argument("--only", choices=PICTURES, help="draw only these")
    arguments = parser.parse_args()
    for name, draw in PICTURES.items():
        if arguments.only in (None, name):
            draw(arguments.folder)


if __name__ == "__main__":
    main()
