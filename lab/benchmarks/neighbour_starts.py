"""Are relevant inputs found, wherever the length-scales of a model by neighbours start?

    python lab/benchmarks/neighbour_starts.py

Synthetic tables: 3 inputs that matter among 100 that do not; 3 among 29, of which none says
anything alone; and a trend with an oscillation of 30 or 100 periods. Each is fitted from several
starts, in units of the default, √D spreads of the inputs. Results, standardised by the spread of
the targets, are appended to results/neighbour-starts.jsonl.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from arguments import add_out, script_parser
from json_lines import append_line
from numpy.typing import NDArray

from sswim import NeighbourGPRegressor

Array = NDArray[np.float64]
N_ROWS = 3000
STARTS = (2.0, 1.0, 0.25, 0.0625)


def noise_columns(random: np.random.Generator) -> tuple[Array, Array]:
    """Three inputs that matter, and a hundred that do not."""
    x = random.normal(size=(N_ROWS, 103))
    return x, np.sin(2 * x[:, 0]) * x[:, 1] + 0.5 * x[:, 2] ** 2 + 0.05 * random.normal(size=N_ROWS)


def none_alone(random: np.random.Generator) -> tuple[Array, Array]:
    """A product of three inputs, none of which is correlated with it, and 29 others."""
    x = random.uniform(-1, 1, (2 * N_ROWS, 32))
    product = x[:, 0] * x[:, 1] * x[:, 2]
    noise = 0.05 * random.normal(size=2 * N_ROWS)
    return x, np.sign(product) * np.sqrt(np.abs(product)) + noise


def oscillation(random: np.random.Generator, periods: int) -> tuple[Array, Array]:
    """A trend with a fast oscillation."""
    x = random.uniform(size=(N_ROWS, 1))
    wave = 0.3 * np.sin(2 * np.pi * periods * x[:, 0])
    return x, 2 * x[:, 0] + wave + 0.03 * random.normal(size=N_ROWS)


def main() -> None:
    """Fit every table from every start."""
    parser = script_parser(__doc__)
    add_out(parser, "results/neighbour-starts.jsonl")
    arguments = parser.parse_args()
    random = np.random.default_rng(0)
    tables = {
        "3 of 103 columns": noise_columns(random),
        "3 of 32 columns, none alone": none_alone(random),
        "30 periods on a trend": oscillation(random, 30),
        "100 periods on a trend": oscillation(random, 100),
    }
    for name, (x, y) in tables.items():
        n_train = 2 * len(x) // 3
        for start in STARTS:
            model = NeighbourGPRegressor(
                depth=0,
                n_neighbors=64,
                length_scale=start * np.sqrt(x.shape[1]),
                random_state=0,
            ).fit(x[:n_train], y[:n_train])
            error = model.predict(x[n_train:]) - y[n_train:]
            rmse = float(np.sqrt(np.mean(error**2)) / y[:n_train].std())
            append_line(Path(arguments.out), {"table": name, "start": start, "rmse": rmse})


if __name__ == "__main__":
    main()
