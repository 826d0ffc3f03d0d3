"""The exact Gaussian process with a squared exponential kernel, and how such ones are trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from scipy.optimize import minimize
from torch import Tensor

from sswim.base.devices import resolve_device
from sswim.base.record import Record
from sswim.lab.peers.dense_algebra import Kernel, Process, negative_log_evidence
from sswim.lab.peers.protocol import Fitted, Gaussian
from sswim.rows.rows import as_measure, as_rows
from sswim.rows.scaling import Scaling, learn_scaling

MAX_ROWS = 5000
"""Seven N × N matrices are 1.4 GB then, and an evaluation takes many seconds of one core."""

LENGTH = (-4.0, 7.0)
"""Of a log length-scale, for standardised inputs: beyond them nothing changes."""
SIGNAL = (-6.0, 6.0)
"""Of the log of a signal's standard deviation, for standardised targets."""
NOISE = (-7.0, 2.0)
"""Of the log of a noise's standard deviation: a covariance stays far from singular."""


class Dense:
    """What the exact processes have in common."""

    libraries: tuple[str, ...] = ("torch", "scipy")
    max_rows: int | None = MAX_ROWS
    first: int
    """Iterations of every start."""
    most: int
    """And then of the best."""

    def settings(self) -> Mapping[str, Any]:
        """The kernel, and how it is trained."""
        return {
            "kernel": "squared exponential",
            "ard": True,
            "optimiser": "l-bfgs-b",
            "iterations_of_starts": self.first,
            "iterations": self.most,
            "dtype": "float64",
        }

    def device(self, wanted: str) -> str:
        """Any that PyTorch has."""
        return str(resolve_device(wanted))


@dataclass(frozen=True)
class GP(Dense):
    """The exact process, with one length-scale for each input."""

    first: int = 10
    most: int = 100

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> Fitted:
        """Maximise the evidence; nothing is random."""
        problem = Problem.of(x, y, self.device(device))
        return FittedGP.of(problem, fit_gp(problem, self.first, self.most))


def fit_gp(problem: Problem, first: int, most: int) -> Float64[np.ndarray, " P"]:
    """log l, log s and the log of the noise's standard deviation, by maximum evidence."""
    n_rows, n_inputs = problem.x.shape

    def objective(point: Float64[Tensor, " P"]) -> Float64[Tensor, ""]:
        kernel = Kernel(point[:-2], point[-2])
        return negative_log_evidence(kernel, point[-1], problem.x, problem.y) / n_rows

    # Distances grow with the number of inputs, most of which may not matter.
    starts = [
        np.array([np.log(length) + 0.5 * np.log(n_inputs)] * n_inputs + [0.0, np.log(noise)])
        for length in (1.0, 3.0)
        for noise in (0.1, 0.6)
    ]
    bounds = [LENGTH] * n_inputs + [SIGNAL, NOISE]
    return minimise(objective, starts, bounds, problem.x.device, first, most)


@dataclass(frozen=True)
class FittedGP:
    """A trained process."""

    problem: Problem
    process: Process
    log_noise: float

    @classmethod
    def of(cls, problem: Problem, point: Float64[np.ndarray, " P"]) -> FittedGP:
        """With given hyper-parameters."""
        values = torch.as_tensor(point, device=problem.x.device)
        kernel = Kernel(values[:-2], values[-2])
        process = Process.of(kernel, problem.x, (2 * values[-1]).exp(), problem.y)
        return cls(problem, process, float(point[-1]))

    def predict(self, x: Float64[np.ndarray, "M D"]) -> Gaussian:
        """The densities of the targets of rows."""
        mean, variance = self.process.predict(self.problem.standardised(x))
        variance = variance + np.exp(2 * self.log_noise)
        scaling = self.problem.scaling
        mean = scaling.original_targets(mean[:, None])[:, 0]
        variance = variance * scaling.target_spread.square()
        return Gaussian(mean.cpu().numpy(), variance.cpu().numpy())


@dataclass(frozen=True)
class Problem(Record):
    """Standardised training rows."""

    x: Float64[Tensor, "N D"]
    y: Float64[Tensor, " N"]
    scaling: Scaling

    @classmethod
    def of(
        cls, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], device: str
    ) -> Problem:
        """Standardise rows; a constant column becomes zeros."""
        rows = as_rows(x, y)
        scaling = learn_scaling(rows)
        rows = scaling.rows(rows)
        return cls(rows.inputs.mean, rows.targets[:, 0], scaling).to(device=torch.device(device))

    def standardised(self, x: Float64[np.ndarray, "M D"]) -> Float64[Tensor, "M D"]:
        """Inputs of other rows, on the device."""
        measure = as_measure(x).to(device=self.x.device)
        return self.scaling.inputs(measure).mean


def minimise(
    objective: Callable[[Float64[Tensor, " P"]], Float64[Tensor, ""]],
    starts: Sequence[Float64[np.ndarray, " P"]],
    bounds: Sequence[tuple[float, float]],
    device: torch.device,
    first: int,
    most: int,
) -> Float64[np.ndarray, " P"]:
    """The lowest point that L-BFGS-B finds.

    Of several starts each has a few iterations, and the best of them the rest.
    """

    def evaluated(point: Any) -> tuple[float, Any]:
        leaf = torch.tensor(point, device=device, requires_grad=True)
        value = objective(leaf)
        (gradient,) = torch.autograd.grad(value, leaf)
        return value.item(), gradient.cpu().numpy()

    def run(start: Float64[np.ndarray, " P"], steps: int) -> Any:
        return minimize(
            evaluated,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": steps, "maxfun": 2 * steps, "ftol": 1e-10, "gtol": 1e-6},
        )

    if len(starts) > 1:
        starts = [min((run(start, first) for start in starts), key=lambda found: found.fun).x]
    return run(starts[0], most).x
