"""Notice that rows no longer look like those that a model has learnt from.

Run ``python examples/drift.py``. It fits a model to measurements of a machine, watches 2,000 new
ones, among which a sensor begins to read too high, and writes the picture of
docs/monitoring.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from jaxtyping import Float64
from matplotlib.figure import Figure
from rich.console import Console

from sswim import WarpedGPRegressor
from sswim.conformal import MonitorReport
from sswim.files.output_files import atomic_write, require_folder
from sswim.plotting import plot_monitor, png

SEED = 0
N_FIT, N_CALIBRATION, N_NEW, FAILURE = 600, 600, 2000, 1200
NOISE, OFFSET = 0.3, 0.2
"""Standard deviation of the noise, and the error of the failing sensor."""

Vector = Float64[np.ndarray, " N"]
Matrix = Float64[np.ndarray, "N D"]


def measure(n: int, random: np.random.Generator) -> tuple[Matrix, Vector]:
    """Return load and speed of a machine, and its temperature."""
    load, speed = random.uniform(0, 1, n), random.gamma(4, 0.25, n)
    temperature = 3 * np.sin(4 * load) * speed + speed**2
    return np.column_stack((load, speed)), temperature + NOISE * random.normal(size=n)


def watch() -> MonitorReport:
    """Fit a model, calibrate it with rows of its own, and watch new rows."""
    random = np.random.default_rng(SEED)
    model = WarpedGPRegressor(depth=0, n_components=64, random_state=SEED)
    model.fit(*measure(N_FIT, random)).calibrate(*measure(N_CALIBRATION, random))
    X, y = measure(N_NEW, random)
    y[FAILURE:] += OFFSET
    return model.monitor(X, y)


def draw(report: MonitorReport) -> Figure:
    """Draw the report."""
    return plot_monitor(report, figure=Figure(figsize=(10, 7), layout="constrained"))


def main() -> None:
    """Watch the rows, print what was found and write the picture."""
    parser = argparse.ArgumentParser(description="Run the example of docs/monitoring.md.")
    parser.add_argument("--out", type=Path, default=Path("docs/images"), help="folder of pictures")
    path = parser.parse_args().out / "monitor.png"
    require_folder(path)
    report = watch()
    with atomic_write(path) as temporary:
        temporary.write_bytes(png(draw(report)))
    console = Console()
    console.print(report.says, soft_wrap=True, highlight=False)
    console.print(f"Wrote {path}", soft_wrap=True, markup=False, highlight=False)


if __name__ == "__main__":
    main()
