"""Predictions of many rows beside the bare products that they need, and beside those of SVGP.

    python benchmarks/prediction.py [--rows 1000000] [--device cuda] [--no-ensemble]

Of a model with one warp and of the default, fitted to a few rows: the time does not depend on what
they learnt. A mean needs two products N×F×K for each warp, and a variance one N×F×F.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from peers import DTYPES, SVGP_INDUCING, DType, LeftOutError, require_gpytorch, synthetic
from step import DEVICES
from timing import Comparison, Rounds, Work, compare, machine

from sswim import SSWIMRegressor
from sswim.base.devices import resolve_device

FITTED_ROWS, N_INPUTS = 2000, 20
CHUNK = 4096
"""Rows of the bare products at a time, which hold no more than these in memory either."""
SETTINGS: dict[str, dict[str, Any]] = {
    "one warp": {"depth": 1, "n_components": 512},
    "ensemble": {},
}
SVGP_NAME = f"SVGP-{SVGP_INDUCING}, std"


def predictions(regressor: SSWIMRegressor, x: NDArray[np.float64], *, std: bool) -> Work:
    """Means of rows, with or without standard deviations."""

    def predict() -> None:
        regressor.predict(x, return_std=std)

    return predict


def products(
    regressor: SSWIMRegressor,
    n_rows: int,
    device: torch.device,
    *,
    dtype: torch.dtype,
    variance: bool,
) -> Work:
    """The bare products behind the predictions of all members."""
    generator = torch.Generator(device).manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=dtype, device=device, generator=generator)

    pairs = [
        (draw(min(CHUNK, n_rows), n_in), draw(n_in, n_out))
        for n_in, n_out in product_shapes(regressor, variance=variance)
    ]

    def multiply() -> None:
        for begin in range(0, n_rows, CHUNK):
            for left, right in pairs:
                torch.mm(left[: n_rows - begin], right)

    return multiply


def product_shapes(regressor: SSWIMRegressor, *, variance: bool) -> list[tuple[int, int]]:
    """The matrices that the features of a row are multiplied by."""
    shapes = []
    for model in regressor._models:
        architecture = model.architecture
        warp = (2 * architecture.warp_frequencies, architecture.n_pseudo)
        n_processes = 1 if architecture.warps == "joint" else 2
        shapes += n_processes * architecture.depth * [warp]
        n_components = 2 * architecture.n_frequencies
        if architecture.linear:
            n_components += model.n_inputs + 1
        shapes.append((n_components, n_components if variance else 1))
    return shapes


def works(
    names: list[str], n_rows: int, n_fitted: int, dtype: DType, device: torch.device
) -> tuple[dict[str, Work], dict[str, str]]:
    """What is to be timed, and what is left out and why."""
    few = synthetic(n_fitted, N_INPUTS)
    x = synthetic(n_rows, N_INPUTS).x
    result: dict[str, Work] = {}
    for name in names:
        regressor = SSWIMRegressor(
            **SETTINGS[name], max_iter=2, dtype=dtype, device=str(device), random_state=0
        )
        regressor.fit(few.x.numpy(), few.y.numpy())
        for what, std in (("mean", False), ("std", True)):
            result[f"{name}, {what}"] = predictions(regressor, x.numpy(), std=std)
            result[f"{name}, products of {what}"] = products(
                regressor, n_rows, device, dtype=DTYPES[dtype], variance=std
            )
    try:
        process = require_gpytorch().SVGP.start(few.x.to(device, DTYPES[dtype]), SVGP_INDUCING)
    except LeftOutError as error:
        return result, {SVGP_NAME: str(error)}
    process.epoch(few.x.to(device, DTYPES[dtype]), few.y.to(device, DTYPES[dtype]))
    narrow = x.to(DTYPES[dtype])

    def predict() -> None:
        process.predict(narrow)

    return {**result, SVGP_NAME: predict}, {}


def ratios(comparison: Comparison) -> dict[str, float]:
    """Of predictions to their bare products, and of SVGP to predictions with variances."""
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
    """Measure, print and store."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--fitted-rows", type=int, default=FITTED_ROWS)
    parser.add_argument("--ensemble", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--dtype", choices=get_args(DType), default="float64")
    parser.add_argument("--device", choices=DEVICES, default="auto")
    parser.add_argument("--out", type=Path, help="results/prediction-<device>.json by default")
    asked = parser.parse_args()
    device = resolve_device(asked.device)
    names = list(SETTINGS) if asked.ensemble else ["one warp"]
    runnable, left_out = works(names, asked.rows, asked.fitted_rows, asked.dtype, device)
    comparison = compare(runnable, device, Rounds(least=3))
    result = {
        "command": "python benchmarks/prediction.py",
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
    out = asked.out or Path(f"results/prediction-{device.type}.json")
    out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
