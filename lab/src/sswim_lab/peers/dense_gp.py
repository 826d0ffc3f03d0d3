"""The exact GP with a squared exponential kernel, and the training of all dense GPs.

Gradients are in closed form. Every matrix is dense and in float64: the cost is that of N × N
factorisations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float64
from scipy.optimize import minimize
from torch import Tensor

from sswim.base.cholesky import cholesky, solve, solve_and_invert
from sswim.base.record import Record
from sswim_lab.peers.protocol import Fitted, Gaussian, StandardisedRows, TorchMethod, standardise

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


_CHUNK_ROWS = 1000
"""Number of rows whose covariances with the training rows are in memory together."""


@dataclass(frozen=True)
class SquaredExponential(Record):
    """The kernel k(x, x') = s² exp(−½ Σ_d (x_d − x'_d)²/l_d²)."""

    log_lengths: Float64[Tensor, " D"]
    """log l"""
    log_signal: Float64[Tensor, ""]
    """log s"""

    def matrix(self, x: Float64[Tensor, "N D"]) -> Float64[Tensor, "N N"]:
        """Return the covariances among rows."""
        return _KernelMatrix.apply(x, self.log_lengths, self.log_signal)

    def between(
        self, x: Float64[Tensor, "M D"], others: Float64[Tensor, "N D"]
    ) -> Float64[Tensor, "M N"]:
        """Return the covariances of rows with other rows."""
        return _covariances(x * self._rates, others * self._rates, self.log_signal)

    @property
    def signal_variance(self) -> Float64[Tensor, ""]:
        """s²"""
        return (2 * self.log_signal).exp()

    @property
    def _rates(self) -> Float64[Tensor, " D"]:
        """1/l"""
        return (-self.log_lengths).exp()


@dataclass(frozen=True)
class SolvedSystem(Record):
    """The solution of Mβ = r for a positive definite M, and what else its factor gives."""

    solution: Float64[Tensor, " N"]
    """β = M⁻¹r"""
    inverse_diagonal: Float64[Tensor, " N"]
    """diag M⁻¹"""
    log_determinant: Float64[Tensor, ""]
    """log|M|"""


def solve_system(matrix: Float64[Tensor, "N N"], vector: Float64[Tensor, " N"]) -> SolvedSystem:
    """Solve Mβ = r by a Cholesky factor, with gradients in closed form."""
    return SolvedSystem(*_Inverse.apply(matrix, vector))


@dataclass(frozen=True)
class ConditionedGP(Record):
    """A zero-mean GP given noisy observations r of its values at rows x."""

    kernel: SquaredExponential
    x: Float64[Tensor, "N D"]
    factor: Float64[Tensor, "N N"]
    """Lower Cholesky factor of M = K + noise."""
    solution: Float64[Tensor, " N"]
    """M⁻¹r"""

    def predict(
        self, x: Float64[Tensor, "M D"]
    ) -> tuple[Float64[Tensor, " M"], Float64[Tensor, " M"]]:
        """Return the mean k*ᵀM⁻¹r and the variance s² − k*ᵀM⁻¹k* of the function at rows."""
        means, variances = [], []
        for rows in x.split(_CHUNK_ROWS):
            cross = self.kernel.between(rows, self.x)
            white = torch.linalg.solve_triangular(self.factor, cross.mT, upper=False)
            means.append(cross @ self.solution)
            variances.append(self.kernel.signal_variance - white.square().sum(0))
        return torch.cat(means), torch.cat(variances).clamp(min=0)


def condition(
    kernel: SquaredExponential,
    x: Float64[Tensor, "N D"],
    noise: Float64[Tensor, "*rows"],
    values: Float64[Tensor, " N"],
) -> ConditionedGP:
    """Condition a GP on values at rows; the noise variance is shared or given for every row."""
    factor = cholesky(plus_diagonal(kernel.matrix(x), noise), "covariance of the rows")
    return ConditionedGP(kernel, x, factor, solve(factor, values))


def plus_diagonal(
    matrix: Float64[Tensor, "N N"], diagonal: Float64[Tensor, "*rows"]
) -> Float64[Tensor, "N N"]:
    """Return a matrix with one value, or a value for every row, added to its diagonal."""
    matrix = matrix.clone()
    matrix.diagonal().add_(diagonal)
    return matrix


def negative_log_evidence(
    kernel: SquaredExponential,
    log_noise: Float64[Tensor, ""],
    x: Float64[Tensor, "N D"],
    targets: Float64[Tensor, " N"],
) -> Float64[Tensor, ""]:
    """Return ½(rᵀM⁻¹r + log|M| + N log 2π) for targets r, where M = K + noise."""
    system = solve_system(plus_diagonal(kernel.matrix(x), (2 * log_noise).exp()), targets)
    constant = len(targets) * math.log(2 * math.pi)
    return 0.5 * (targets @ system.solution + system.log_determinant + constant)


def _covariances(
    x: Float64[Tensor, "M D"], others: Float64[Tensor, "N D"], log_signal: Float64[Tensor, ""]
) -> Float64[Tensor, "M N"]:
    """Return s² exp(−½|a − b|²) by |a|² + |b|² − 2aᵀb, in place because the matrix is large."""
    exponent = x @ others.mT
    exponent -= 0.5 * x.square().sum(1)[:, None]
    exponent -= 0.5 * others.square().sum(1)
    return exponent.clamp_(max=0).add_(2 * log_signal).exp_()


class _KernelMatrix(torch.autograd.Function):
    """The matrix K of the kernel among rows. Its gradients are sums over W = ∂/∂K ∘ K.

    With a = x/l these are Σ_ij W_ij (a_id − a_jd)² for log l_d and 2 Σ_ij W_ij for log s.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, log_lengths: Tensor, log_signal: Tensor) -> Tensor:
        scaled = x * (-log_lengths).exp()
        matrix = _covariances(scaled, scaled, log_signal)
        ctx.save_for_backward(scaled, matrix)
        return matrix

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, Tensor]:
        scaled, matrix = ctx.saved_tensors
        weight = gradients[0] * matrix
        total = weight.sum(0) + weight.sum(1)
        lengths = total @ scaled.square() - 2 * (scaled * (weight @ scaled)).sum(0)
        return None, lengths, total.sum()


class _Inverse(torch.autograd.Function):
    """β = M⁻¹r, diag M⁻¹ and log|M|.

    dβ = M⁻¹(dr − dM β), d(M⁻¹) = −M⁻¹ dM M⁻¹ and d log|M| = tr M⁻¹dM.
    """

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, vector: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        factor = cholesky(matrix, "covariance of the rows")
        solution, inverse = solve_and_invert(factor, vector)
        ctx.save_for_backward(solution, inverse)
        ctx.set_materialize_grads(False)
        return solution, inverse.diagonal().clone(), 2 * factor.diagonal().log().sum()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor, Tensor | None]:
        solution, inverse = ctx.saved_tensors
        by_solution, by_diagonal, by_determinant = gradients
        matrix, vector = torch.zeros_like(inverse), None
        if by_determinant is not None:
            matrix += by_determinant * inverse
        if by_solution is not None:
            vector = inverse @ by_solution
            matrix -= torch.outer(vector, solution)
        if by_diagonal is not None:
            matrix -= (inverse * by_diagonal) @ inverse
        return matrix, vector
