"""The exact GP with a squared exponential kernel, and the training of all dense GPs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float64
from scipy.optimize import minimize
from torch import Tensor

from sswim_lab.peers.dense_algebra import (
    ConditionedGP,
    SquaredExponential,
    condition,
    negative_log_evidence,
)
from sswim_lab.peers.protocol import Fitted, Gaussian
from sswim_lab.peers.standardised_rows import StandardisedRows, standardise
from sswim_lab.peers.torch_method import TorchMethod

MAX_ROWS = 5000
"""At this size seven N × N matrices take 1.4 GB, and an evaluation many seconds of one core."""

LOG_LENGTH = (-4.0, 7.0)
"""Bounds of a log length-scale, for standardised inputs: beyond them nothing changes."""
LOG_SIGNAL = (-6.0, 6.0)
"""Bounds of the log standard deviation of the signal, for standardised targets."""
LOG_NOISE = (-7.0, 2.0)
"""Bounds of the log standard deviation of the noise: covariances stay far from singular."""


class DenseMethod(TorchMethod):
    """A method with a squared exponential kernel and dense N × N algebra."""

    libraries: ClassVar[tuple[str, ...]] = ("torch", "scipy")
    max_rows: ClassVar[int | None] = MAX_ROWS
    start_iterations: int
    """Iterations from every start."""
    iterations: int
    """Iterations from the best of the points that the starts reached."""

    def settings(self) -> Mapping[str, Any]:
        """Return the kernel and the settings of its training."""
        return {
            "kernel": "squared exponential",
            "ard": True,
            "optimiser": "l-bfgs-b",
            "iterations_of_starts": self.start_iterations,
            "iterations": self.iterations,
            "dtype": "float64",
        }


@dataclass(frozen=True)
class GP(DenseMethod):
    """The exact GP, with one length-scale for each input."""

    start_iterations: int = 10
    iterations: int = 100

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> Fitted:
        """Maximise the evidence; nothing is random."""
        rows = standardise(x, y, self.device(device))
        point = maximise_evidence(rows, self.start_iterations, self.iterations)
        return FittedGP.from_point(rows, point)


def maximise_evidence(
    rows: StandardisedRows, start_iterations: int, iterations: int
) -> Float64[np.ndarray, " P"]:
    """Return log l, log s and the log standard deviation of the noise of the highest evidence."""
    n_rows, n_inputs = rows.x.shape

    def objective(point: Float64[Tensor, " P"]) -> Float64[Tensor, ""]:
        kernel = SquaredExponential(point[:-2], point[-2])
        return negative_log_evidence(kernel, point[-1], rows.x, rows.y) / n_rows

    # Distances grow with the number of inputs, most of which may not matter.
    starts = [
        np.array([np.log(length) + 0.5 * np.log(n_inputs)] * n_inputs + [0.0, np.log(noise)])
        for length in (1.0, 3.0)
        for noise in (0.1, 0.6)
    ]
    bounds = [LOG_LENGTH] * n_inputs + [LOG_SIGNAL, LOG_NOISE]
    return minimise(objective, starts, bounds, rows.x.device, start_iterations, iterations)


@dataclass(frozen=True)
class FittedGP:
    """A trained GP."""

    rows: StandardisedRows
    gp: ConditionedGP
    log_noise: float

    @classmethod
    def from_point(cls, rows: StandardisedRows, point: Float64[np.ndarray, " P"]) -> FittedGP:
        """Condition the GP with the hyper-parameters that ``maximise_evidence`` returns."""
        values = torch.as_tensor(point, device=rows.x.device)
        kernel = SquaredExponential(values[:-2], values[-2])
        gp = condition(kernel, rows.x, (2 * values[-1]).exp(), rows.y)
        return cls(rows, gp, float(point[-1]))

    def predict(self, x: Float64[np.ndarray, "M D"]) -> Gaussian:
        """Return the predictive densities at rows."""
        mean, variance = self.gp.predict(self.rows.inputs(x))
        return self.rows.gaussian(mean, variance + np.exp(2 * self.log_noise))


def minimise(
    objective: Callable[[Float64[Tensor, " P"]], Float64[Tensor, ""]],
    starts: Sequence[Float64[np.ndarray, " P"]],
    bounds: Sequence[tuple[float, float]],
    device: torch.device,
    start_iterations: int,
    iterations: int,
) -> Float64[np.ndarray, " P"]:
    """Return the lowest point that L-BFGS-B finds.

    Args:
        objective: Function to minimise, differentiable by PyTorch.
        starts: Points to start from.
        bounds: Lower and upper bound of every coordinate.
        device: Device of the objective's argument.
        start_iterations: Iterations from every start; none if there is only one.
        iterations: Iterations from the best of the points that the starts reached.
    """

    def value_and_gradient(point: Any) -> tuple[float, Any]:
        leaf = torch.tensor(point, device=device, requires_grad=True)
        value = objective(leaf)
        (gradient,) = torch.autograd.grad(value, leaf)
        return value.item(), gradient.cpu().numpy()

    def run(start: Float64[np.ndarray, " P"], steps: int) -> Any:
        return minimize(
            value_and_gradient,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": steps, "maxfun": 2 * steps, "ftol": 1e-10, "gtol": 1e-6},
        )

    if len(starts) > 1:
        reached = (run(start, start_iterations) for start in starts)
        starts = [min(reached, key=lambda result: result.fun).x]
    return run(starts[0], iterations).x
