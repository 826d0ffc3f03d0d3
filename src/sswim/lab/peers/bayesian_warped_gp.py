"""The Bayesian warped Gaussian process of Lázaro-Gredilla (2012).

y = g(f(x)) + ε, where f ~ GP(m, k + τ²δ) and the warp g is a process around the identity. The noise
τ within f is what the warp makes skewed, or larger for some targets than for others.

q(f) = N(μ, Σ) with Σ = (K_f⁻¹ + Λ)⁻¹ and a diagonal Λ (Opper and Archambeau) is what pseudo-targets
t_n with the noise variances s_n = 1/Λ_n would leave of the prior N(m, K_f), K_f = K + τ²I. With
M = K + diag(τ² + s), β = M⁻¹(t − m) and d = diag M⁻¹ its marginals are

    μ_n = t_n − s_n β_n,   Σ_nn = s_n − s_n² d_n,

and log p(y) is at least the warp's bound (see ``bayesian_warp``) less KL(q‖p) of f,

    ½(Σ_n s_n d_n − N + βᵀ(t − m) − Σ_n s_n β_n² + log|M| − Σ_n log s_n).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import Record
from sswim.lab.peers.bayesian_warp import WarpPosterior, WarpPrior
from sswim.lab.peers.bayesian_warped_density import Argument, BayesianWarpedPredictive
from sswim.lab.peers.dense_algebra import Kernel, Process, plus_diagonal, solved
from sswim.lab.peers.dense_gp import LENGTH, NOISE, SIGNAL, Dense, Problem, minimise
from sswim.lab.peers.warped_gp import FittedWarpedGP, fit_warped

OFFSET = (-20.0, 20.0)
"""Of m."""
LOG_AMPLITUDE, LOG_LENGTH, LOG_NOISE = (-6.0, 3.0), (-2.0, 3.0), (-5.0, 2.0)
"""Of the warp's α and ℓ, and of its noise's σ."""
LOW, LOG_WIDTH = (-30.0, 5.0), (0.0, 4.0)
"""Of the warp's grid."""
PSEUDO, LOG_PSEUDO_VARIANCE = (-30.0, 30.0), (-16.0, 6.0)
"""Of t and log s."""

N_SCALARS = 8
"""Parameters that are neither length-scales nor of a row."""
NOISE_SHARE = 0.1
"""Of the noise variance, to start with: what is behind the warp and not within f."""


@dataclass(frozen=True)
class BWGP(Dense):
    """A warped process whose warp is integrated out, by a variational bound."""

    n_points: int = 40
    """Of the warp's grid."""
    n_terms: int = 3
    """Of the maximum likelihood warp that it starts from."""
    first: int = 15
    most: int = 150

    def settings(self) -> Mapping[str, Any]:
        """The kernel, the warp, and how they are trained."""
        return {
            **super().settings(),
            "warp_kernel": "squared exponential",
            "n_points": self.n_points,
            "n_terms_of_start": self.n_terms,
        }

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> FittedBayesianWarpedGP:
        """Maximise the bound; nothing is random."""
        problem = Problem.of(x, y, self.device(device))
        n_rows, n_inputs = problem.x.shape
        start = _start(fit_warped(problem, self.n_terms, self.first, 3 * self.first))
        rows = math.sqrt(n_rows)
        bounds = [LENGTH] * n_inputs + [SIGNAL, NOISE, OFFSET]
        bounds += [LOG_AMPLITUDE, LOG_LENGTH, LOG_NOISE, LOW, LOG_WIDTH]
        for low, high in (PSEUDO, LOG_PSEUDO_VARIANCE):
            bounds += [(low / rows, high / rows)] * n_rows

        def objective(point: Float64[Tensor, " P"]) -> Float64[Tensor, ""]:
            parameters = Parameters.of(point, n_inputs)
            return -Bound.of(parameters, problem, self.n_points).value / n_rows

        point = minimise(
            objective, [start.point()], bounds, problem.x.device, self.first, self.most
        )
        found = Parameters.of(torch.as_tensor(point, device=problem.x.device), n_inputs)
        return FittedBayesianWarpedGP.of(found, problem, self.n_points)


@dataclass(frozen=True)
class Parameters(Record):
    """Of the prior, and of q(f)."""

    kernel: Kernel
    """k"""
    log_noise: Float64[Tensor, ""]
    """log τ"""
    offset: Float64[Tensor, ""]
    """m"""
    prior: WarpPrior
    pseudo: Float64[Tensor, " N"]
    """t"""
    log_pseudo_variance: Float64[Tensor, " N"]
    """log s"""

    @classmethod
    def of(cls, point: Float64[Tensor, " P"], n_inputs: int) -> Parameters:
        """Those of a point of the optimiser's.

        A row's parameters are √N times its coordinates: the bound then bends about as much along
        every one.
        """
        log_lengths, scalars, rows = point.tensor_split((n_inputs, n_inputs + N_SCALARS))
        n_rows = len(rows) // 2
        pseudo, log_variance = (math.sqrt(n_rows) * rows).split(n_rows)
        signal, noise, offset, *prior = scalars
        return cls(
            Kernel(log_lengths, signal), noise, offset, WarpPrior(*prior), pseudo, log_variance
        )

    def point(self) -> Float64[np.ndarray, " P"]:
        """The optimiser's point."""
        scale = math.sqrt(len(self.pseudo))
        *first, pseudo, log_variance = (tensor.reshape(-1) for tensor in self.tensors())
        together = torch.cat((*first, pseudo / scale, log_variance / scale))
        return together.cpu().numpy()

    @property
    def noise(self) -> Float64[Tensor, " N"]:
        """τ² + s"""
        return (2 * self.log_noise).exp() + self.log_pseudo_variance.exp()


@dataclass(frozen=True)
class Bound(Record):
    """On log p(y)."""

    value: Float64[Tensor, ""]
    warp: WarpPosterior

    @classmethod
    def of(cls, parameters: Parameters, problem: Problem, n_points: int) -> Bound:
        """With the best q(u) of the warp."""
        given, log_variance = parameters.pseudo, parameters.log_pseudo_variance
        variance = log_variance.exp()  # s
        covariance = plus_diagonal(parameters.kernel.matrix(problem.x), parameters.noise)
        found = solved(covariance, given - parameters.offset)
        shrinkage = variance * found.solution  # sβ
        kept = variance * found.diagonal  # sd, below one but for rounding
        divergence = 0.5 * (
            kept.sum()
            - len(given)
            + (given - parameters.offset - shrinkage) @ found.solution
            + found.log_determinant
            - log_variance.sum()
        )
        marginal = variance * (1 - kept).clamp(min=1e-12)
        warp = WarpPosterior.of(parameters.prior, n_points, problem.y, given - shrinkage, marginal)
        return cls(warp.bound - divergence, warp)


def _start(warped: FittedWarpedGP) -> Parameters:
    """f = T(y) of a maximum likelihood warp, scaled as y is: then g is T⁻¹."""
    y = warped.problem.y
    values, log_slope = (column[:, 0] for column in warped.output.forward(y[:, None]))
    spread = values.std(correction=0).clamp(min=1e-3)
    values, log_slope = values / spread, log_slope - spread.log()
    kernel, log_noise = warped.process.kernel, warped.log_noise - spread.log()
    # The noise of y behind a warp of slope g' is a variance s = σ²/g'² within it.
    log_behind = log_noise + 0.5 * math.log(NOISE_SHARE) - log_slope.median()  # log σ
    margin = torch.ones_like(spread)
    low, high = values.min() - margin, values.max() + margin
    centre = values.mean()
    prior = WarpPrior(
        (0.5 * margin).log(), margin.log(), log_behind, low - centre, (high - low).log()
    )
    return Parameters(
        Kernel(kernel.log_lengths, kernel.log_signal - spread.log()),
        log_noise,
        -centre,
        prior,
        values - centre,
        2 * (log_behind + log_slope),
    )


@dataclass(frozen=True)
class FittedBayesianWarpedGP:
    """A trained process of both function and warp."""

    problem: Problem
    process: Process
    """Of f − m, given the pseudo-targets."""
    parameters: Parameters
    warp: WarpPosterior

    @classmethod
    def of(cls, parameters: Parameters, problem: Problem, n_points: int) -> FittedBayesianWarpedGP:
        """With given parameters."""
        given = parameters.pseudo - parameters.offset
        process = Process.of(parameters.kernel, problem.x, parameters.noise, given)
        return cls(problem, process, parameters, Bound.of(parameters, problem, n_points).warp)

    def predict(self, x: Float64[np.ndarray, "M D"]) -> BayesianWarpedPredictive:
        """The densities of the targets of rows."""
        mean, variance = self.process.predict(self.problem.standardised(x))
        deviation = (variance + (2 * self.parameters.log_noise).exp()).sqrt()
        argument = Argument(self.warp, self.parameters.offset + mean, deviation)
        return BayesianWarpedPredictive.of(argument, self.problem.scaling)
