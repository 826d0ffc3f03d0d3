"""Time predictions of many rows and of one, the bare products of many, and predictions by SVGP.

    python lab/benchmarks/prediction.py [--rows 1000000] [--device cuda] [--no-ensemble]

The models are one with a single warp and the default, fitted to a few rows, because the time does
not depend on the fit. A mean needs two products N×F×K for each warp, and a variance one N×F×F. One
row needs few operations: its time is that of the calls.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from peers import SVGP_INDUCING, LeftOutError, require_gpytorch, synthetic
from scripting import DTYPES, DType, add_device, add_dtype, add_out, result_path, script_parser
from timing import Comparison, Rounds, Workload, compare, machine

from sswim.distributed.processes import resolve_device
from sswim.estimator import BaseRegressor, make_estimator

FITTED_ROWS, N_INPUTS = 2000, 20
CHUNK_ROWS = 4096
"""Number of rows of the bare products that are held in memory at a time."""
SETTINGS: dict[str, dict[str, Any]] = {
    "one warp": {"depth": 1, "n_components": 512},
    "ensemble": {},
}
SVGP_NAME = f"SVGP-{SVGP_INDUCING}, std"


def predictions(regressor: BaseRegressor, x: NDArray[np.float64], *, std: bool) -> Workload:
    """Return the prediction of means, with or without standard deviations."""

    def predict() -> None:
        regressor.predict(x, return_std=std)

    return predict


def intervals(regressor: BaseRegressor, x: NDArray[np.float64]) -> Workload:
    """Return the prediction of intervals."""

    def predict() -> None:
        regressor.predict_interval(x)

    return predict


def products(
    regressor: BaseRegressor,
    n_rows: int,
    device: torch.device,
    *,
    dtype: torch.dtype,
    variance: bool,
) -> Workload:
    """Return the bare products that the predictions of all members need."""
    generator = torch.Generator(device).manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=dtype, device=device, generator=generator)

    pairs = [
        (draw(min(CHUNK_ROWS, n_rows), n_in), draw(n_in, n_out))
        for n_in, n_out in product_shapes(regressor, variance=variance)
    ]

    def multiply() -> None:
        for begin in range(0, n_rows, CHUNK_ROWS):
            for left, right in pairs:
                torch.mm(left[: n_rows - begin], right)

    return multiply


def product_shapes(regressor: BaseRegressor, *, variance: bool) -> list[tuple[int, int]]:
    """Return the shapes of the matrices by which features are multiplied."""
    shapes = []
    for member in regressor.members_:
        architecture = member.model.architecture
        warp = (2 * architecture.warp_frequencies, architecture.n_pseudo)
        n_functions = 1 if architecture.warps == "joint" else 2
        shapes += n_functions * architecture.depth * [warp]
        if architecture.n_neighbors:  # small matrices of each row, and no features
            continue
        n_components = 2 * architecture.n_frequencies
        shapes.append((n_components, n_components if variance else 1))
    return shapes


def workloads(
    names: list[str], n_rows: int, n_fitted: int, dtype: DType, device: torch.device
) -> tuple[dict[str, Workload], dict[str, str]]:
    """Return the workloads, and the reasons why others are left out, by name."""
    few = synthetic(n_fitted, N_INPUTS)
    x = synthetic(n_rows, N_INPUTS).x
    result: dict[str, Workload] = {}
    for name in names:
        regressor = make_estimator(
            **SETTINGS[name], max_iter=2, dtype=dtype, device=str(device), random_state=0
        )
        regressor.fit(few.x.numpy(), few.y.numpy())
        for what, std in (("mean", False), ("std", True)):
            result[f"{name}, {what}"] = predictions(regressor, x.numpy(), std=std)
            result[f"{name}, products of {what}"] = products(
                regressor, n_rows, device, dtype=DTYPES[dtype], variance=std
            )
        one = x[:1].numpy()
        result[f"{name}, std of one row"] = predictions(regressor, one, std=True)
        result[f"{name}, interval of one row"] = intervals(regressor, one)
    try:
        svgp = require_gpytorch().SVGP.start(few.x.to(device, DTYPES[dtype]), SVGP_INDUCING)
    except LeftOutError as error:
        return result, {SVGP_NAME: str(error)}
    svgp.epoch(few.x.to(device, DTYPES[dtype]), few.y.to(device, DTYPES[dtype]))
    narrow = x.to(DTYPES[dtype])

    def predict() -> None:
        svgp.predict(narrow)

    return {**result, SVGP_NAME: predict}, {}


def ratios(comparison: Comparison) -> dict[str, float]:
    """Return ratios of predictions to their products, and of SVGP to predictions with variances."""
    seconds = {name: timing.seconds for name, timing in comparison.timings.items()}
    result = {}
    for label in SETTINGS:
        for what in ("mean", "std"):
            name, bare = f"{label}, {what}", f"{label}, products of {what}"
            if name in seconds and bare in seconds:
                result[f"{name} / products"] = seconds[name] / seconds[bare]
        if f"{label}, std" in seconds and SVGP_NAME in seconds:
            result[f"{SVGP_NAME} / {label}, std"] = seconds[SVGP_NAME] / seconds[f"{label}, std"]
    return result


def main() -> None:
    """Measure, print and store the results."""
    parser = script_parser(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="number of rows to predict")
    parser.add_argument(
        "--fitted-rows", type=int, default=FITTED_ROWS, help="number of rows to fit the models to"
    )
    parser.add_argument(
        "--ensemble",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="whether to time the default ensemble too",
    )
    add_dtype(parser)
    add_device(parser)
    add_out(parser, "results/prediction-<device>.json")
    asked = parser.parse_args()
    device = resolve_device(asked.device)
    names = list(SETTINGS) if asked.ensemble else ["one warp"]
    runnable, left_out = workloads(names, asked.rows, asked.fitted_rows, asked.dtype, device)
    comparison = compare(runnable, device, Rounds(min_rounds=3))
    result = {
        "command": "python lab/benchmarks/prediction.py",
        **machine(device, ("gpytorch",)),
        "rows": asked.rows,
        "inputs": N_INPUTS,
        "dtype": asked.dtype,
        "seconds": {name: timing.seconds for name, timing in comparison.timings.items()},
        "peak_bytes": {name: timing.peak_bytes for name, timing in comparison.timings.items()},
        "ratios": ratios(comparison),
        "left_out": left_out | comparison.left_out,
    }
    text = json.dumps(result, indent=2, ensure_ascii=False)
    print(text)
    out = result_path(asked.out, device.type)
    out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
