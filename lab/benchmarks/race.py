"""Time sswim until it reaches the final test error of GPyTorch's SVGP, on the data set protein.

    SSWIM_DATA=folder python lab/benchmarks/race.py [--epochs 50] [--repeat 0] [--device cuda]

SVGP has 512 inducing points, single precision and mini-batches of 1024 rows. Its test error and
its seconds of training are recorded after every epoch. Then sswim fits the same rows. Each result
is appended to the result file at once. Errors are RMSEs of the standardised target.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from peers import SVGP_INDUCING, require_gpytorch, synthetic
from scripting import add_device, append_row, script_parser
from sswim_lab.datasets import FOLDER_VARIABLE, Split, split
from timing import machine

from sswim import WarpedGPRegressor
from sswim.distributed.processes import resolve_device
from sswim.estimator import make_estimator

METHODS: dict[str, dict[str, Any]] = {
    "default": {},
    "two warps": {
        "depth": 2,
        "n_components": 256,
        "n_pseudo": 64,
        "warps": "joint",
        "length_scale": 1.0,
        "learning_rate": 0.1,
        "max_iter": 40,
        "growing": True,
        "dtype": "float32",
    },
}
"""Settings of sswim to race with, by name."""


@dataclass(frozen=True)
class Lap:
    """A test error and the time that it took."""

    method: str
    epoch: int | None
    """Number of epochs, for SVGP only."""
    seconds: float
    """Seconds of training, without evaluation."""
    rmse: float
    target_rmse: float | None = None
    """Error of SVGP after its last epoch."""
    reached: bool | None = None
    """Whether the error is no higher than the target."""
    svgp_seconds: float | None = None
    """Seconds after which SVGP first reached the target."""
    ratio: float | None = None
    """Ratio of the seconds of SVGP to those of sswim."""
    settings: str = ""
    """Settings of sswim, in JSON."""


def svgp_laps(rows: Split, epochs: int, seed: int, device: torch.device) -> Iterator[Lap]:
    """Train SVGP and yield its error after each epoch."""
    peers = require_gpytorch()
    centre, scale = rows.train_x.mean(0), rows.train_x.std(0)
    target_centre, target_scale = rows.train_y.mean(), rows.train_y.std()
    train_x, test_x = (_single_precision((x - centre) / scale) for x in (rows.train_x, rows.test_x))
    train_y = _single_precision((rows.train_y - target_centre) / target_scale).to(device)
    test_y = _single_precision((rows.test_y - target_centre) / target_scale)
    train_x = train_x.to(device)
    with torch.random.fork_rng():  # SVGP starts from draws of the global generator
        torch.manual_seed(seed)
        svgp = peers.SVGP.start(train_x, SVGP_INDUCING, seed)
        seconds = 0.0
        for epoch in range(1, epochs + 1):
            began = _now(device)
            svgp.epoch(train_x, train_y)
            seconds += _now(device) - began
            mean, _ = svgp.predict(test_x)
            rmse = (mean - test_y).square().mean().sqrt().item()
            yield Lap(f"svgp-{SVGP_INDUCING}", epoch, seconds, rmse)


def sswim_lap(name: str, rows: Split, seed: int, device: torch.device, svgp: Sequence[Lap]) -> Lap:
    """Fit sswim and compare it with the final error of SVGP."""
    settings = METHODS[name]
    regressor = make_estimator(random_state=seed, device=str(device), **settings)
    began = _now(device)
    regressor.fit(rows.train_x, rows.train_y)
    seconds = _now(device) - began
    errors = np.asarray(regressor.predict(rows.test_x)) - rows.test_y
    rmse = float(np.sqrt(np.mean(errors**2)) / rows.train_y.std())
    target = svgp[-1].rmse
    svgp_seconds = next(lap.seconds for lap in svgp if lap.rmse <= target)
    return Lap(
        f"sswim, {name}",
        None,
        seconds,
        rmse,
        target,
        rmse <= target,
        svgp_seconds,
        svgp_seconds / seconds,
        json.dumps(settings),
    )


def race(
    rows: Split, names: Sequence[str], epochs: int, seed: int, device: torch.device
) -> Iterator[Lap]:
    """Yield the results of SVGP, then those of sswim."""
    _warm_up(device)
    svgp = []
    for lap in svgp_laps(rows, epochs, seed, device):
        svgp.append(lap)
        yield lap
    for name in names:
        yield sswim_lap(name, rows, seed, device, svgp)


def main() -> None:
    """Race, print and store the results."""
    parser = script_parser(__doc__)
    parser.add_argument(
        "--methods", nargs="+", choices=METHODS, default=list(METHODS), help="settings of sswim"
    )
    parser.add_argument("--epochs", type=int, default=50, help="number of epochs of SVGP")
    parser.add_argument("--repeat", type=int, default=0, help="number of the split, also the seed")
    add_device(parser)
    parser.add_argument("--data", help=f"folder of protein.parquet; or set {FOLDER_VARIABLE}")
    parser.add_argument("--out", type=Path, default=Path("results/race.csv"), help="result file")
    asked = parser.parse_args()
    device = resolve_device(asked.device)
    rows = split("protein", asked.repeat, asked.data)
    described = machine(device, ("gpytorch",))
    for lap in race(rows, asked.methods, asked.epochs, asked.repeat, device):
        append_row(asked.out, {**described, "repeat": asked.repeat, **asdict(lap)})
        print(describe(lap), flush=True)


def describe(lap: Lap) -> str:
    """Return a line of text about a result."""
    text = f"{lap.method}{'' if lap.epoch is None else f', epoch {lap.epoch}'}: "
    text += f"{lap.seconds:.1f} s, RMSE {lap.rmse:.4f}"
    if lap.ratio is None:
        return text
    outcome = "reached" if lap.reached else "not reached"
    return f"{text}; {lap.target_rmse:.4f} {outcome}, time of SVGP / sswim {lap.ratio:.2f}"


def _warm_up(device: torch.device) -> None:
    """Run everything once, so that loading code is not timed."""
    data = synthetic(200, 4)
    single = data.x.to(device, torch.float32)
    with torch.random.fork_rng():
        svgp = require_gpytorch().SVGP.start(single, 32)
        svgp.epoch(single, data.y.to(single))
        svgp.predict(single)
    regressor = WarpedGPRegressor(depth=1, max_iter=1, device=str(device), random_state=0)
    regressor.fit(data.x.numpy(), data.y.numpy()).predict(data.x.numpy())


def _single_precision(values: NDArray[np.float64]) -> torch.Tensor:
    return torch.as_tensor(values, dtype=torch.float32)


def _now(device: torch.device) -> float:
    """Return the time in seconds, once the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


if __name__ == "__main__":
    main()
