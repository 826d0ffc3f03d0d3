"""The Bayesian warped GP of Lázaro-Gredilla (2012).

y = g(f(x)) + ε, where f ~ GP(m, k + τ²δ) and the warp g is a GP around the identity. The warp makes
the noise τ within f skewed, or larger for some targets than for others.

q(f) = N(μ, Σ) with Σ = (K_f⁻¹ + Λ)⁻¹ and a diagonal Λ (Opper and Archambeau) is the prior
N(m, K_f), K_f = K + τ²I, conditioned on pseudo-targets t_n of noise variances s_n = 1/Λ_n. With
M = K + diag(τ² + s), β = M⁻¹(t − m) and d = diag M⁻¹ its marginals are

    μ_n = t_n − s_n β_n,   Σ_nn = s_n − s_n² d_n,

and log p(y) is at least the warp's bound (see ``bayesian_warp``) less KL(q‖p) of f,

    ½(Σ_n s_n d_n − N + βᵀ(t − m) − Σ_n s_n β_n² + log|M| − Σ_n log s_n).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import Record
from sswim_lab.peers.bayesian_warp import WarpPosterior, WarpPrior, warp_posterior
from sswim_lab.peers.bayesian_warped_density import WarpedMarginals
from sswim_lab.peers.dense_algebra import (
    ConditionedGP,
    SquaredExponential,
    condition,
    plus_diagonal,
    solve_system,
)
from sswim_lab.peers.dense_gp import LOG_LENGTH, LOG_NOISE, LOG_SIGNAL, DenseMethod, minimise
from sswim_lab.peers.mixture import MixturePredictive
from sswim_lab.peers.standardised_rows import StandardisedRows, standardise
from sswim_lab.peers.warped_gp import FittedWarpedGP, fit_warped_gp

OFFSET = (-20.0, 20.0)
"""Bounds of m."""
WARP_PRIOR = ((-6.0, 3.0), (-2.0, 3.0), (-5.0, 2.0), (-30.0, 5.0), (0.0, 4.0))
"""Bounds of the fields of ``WarpPrior``, in their order."""
PSEUDO_TARGET, LOG_PSEUDO_VARIANCE = (-30.0, 30.0), (-16.0, 6.0)
"""Bounds of t and of log s."""

N_SCALARS = 8
"""Number of parameters that are neither length-scales nor belong to a row."""
NOISE_SHARE = 0.1
"""Share of the noise variance that starts after the warp instead of within f."""


@dataclass(frozen=True)
class BWGP(DenseMethod):
    """A warped GP whose warp is integrated out, by a variational bound."""

    n_points: int = 40
    """Number of points of the warp's grid."""
    n_terms: int = 3
    """Number of steps of the maximum likelihood warp that training starts from."""
    start_iterations: int = 15
    iterations: int = 150

    def settings(self) -> Mapping[str, Any]:
        """Return the kernel, the warp, and the settings of their training."""
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
        rows = standardise(x, y, self.device(device))
        n_rows, n_inputs = rows.x.shape
        warped = fit_warped_gp(rows, self.n_terms, self.start_iterations, 3 * self.start_iterations)
        bounds = [LOG_LENGTH] * n_inputs + [LOG_SIGNAL, LOG_NOISE, OFFSET, *WARP_PRIOR]
        scale = math.sqrt(n_rows)
        for low, high in (PSEUDO_TARGET, LOG_PSEUDO_VARIANCE):
            bounds += [(low / scale, high / scale)] * n_rows

        def objective(point: Float64[Tensor, " P"]) -> Float64[Tensor, ""]:
            parameters = Parameters.from_point(point, n_inputs)
            return -evidence_bound(parameters, rows, self.n_points).value / n_rows

        point = minimise(
            objective,
            [_starting_parameters(warped).point()],
            bounds,
            rows.x.device,
            self.start_iterations,
            self.iterations,
        )
        found = Parameters.from_point(torch.as_tensor(point, device=rows.x.device), n_inputs)
        return FittedBayesianWarpedGP.from_parameters(found, rows, self.n_points)


@dataclass(frozen=True)
class Parameters(Record):
    """Parameters of the prior and of q(f)."""

    kernel: SquaredExponential
    """k"""
    log_noise: Float64[Tensor, ""]
    """log τ"""
    offset: Float64[Tensor, ""]
    """m"""
    prior: WarpPrior
    pseudo_targets: Float64[Tensor, " N"]
    """t"""
    log_pseudo_variance: Float64[Tensor, " N"]
    """log s"""

    @classmethod
    def from_point(cls, point: Float64[Tensor, " P"], n_inputs: int) -> Parameters:
        """Unpack a point of the optimiser.

        A row's parameters are √N times its coordinates: the bound then has about the same
        curvature along every coordinate.
        """
        log_lengths, scalars, rows = point.tensor_split((n_inputs, n_inputs + N_SCALARS))
        n_rows = len(rows) // 2
        pseudo, log_variance = (math.sqrt(n_rows) * rows).split(n_rows)
        signal, noise, offset, *prior = scalars
        return cls(
            SquaredExponential(log_lengths, signal),
            noise,
            offset,
            WarpPrior(*prior),
            pseudo,
            log_variance,
        )

    def point(self) -> Float64[np.ndarray, " P"]:
        """Pack the parameters into a point of the optimiser."""
        scale = math.sqrt(len(self.pseudo_targets))
        *first, pseudo, log_variance = (tensor.reshape(-1) for tensor in self.tensors())
        return torch.cat((*first, pseudo / scale, log_variance / scale)).cpu().numpy()

    @property
    def noise(self) -> Float64[Tensor, " N"]:
        """τ² + s"""
        return (2 * self.log_noise).exp() + self.log_pseudo_variance.exp()


@dataclass(frozen=True)
class EvidenceBound(Record):
    """A lower bound on log p(y)."""

    value: Float64[Tensor, ""]
    warp: WarpPosterior


def evidence_bound(parameters: Parameters, rows: StandardisedRows, n_points: int) -> EvidenceBound:
    """Return the bound with the best q(u) of the warp."""
    given, log_variance = parameters.pseudo_targets, parameters.log_pseudo_variance
    variance = log_variance.exp()  # s
    covariance = plus_diagonal(parameters.kernel.matrix(rows.x), parameters.noise)
    system = solve_system(covariance, given - parameters.offset)
    shrinkage = variance * system.solution  # sβ
    kept = variance * system.inverse_diagonal  # sd, below one but for rounding
    divergence = 0.5 * (
        kept.sum()
        - len(given)
        + (given - parameters.offset - shrinkage) @ system.solution
        + system.log_determinant
        - log_variance.sum()
    )
    marginal = variance * (1 - kept).clamp(min=1e-12)
    warp = warp_posterior(parameters.prior, n_points, rows.y, given - shrinkage, marginal)
    return EvidenceBound(warp.bound - divergence, warp)


def _starting_parameters(warped: FittedWarpedGP) -> Parameters:
    """Return parameters with f = T(y) of a maximum likelihood warp, scaled to unit spread."""
    y = warped.rows.y
    values, log_slope = (column[:, 0] for column in warped.output.forward(y[:, None]))
    spread = values.std(correction=0).clamp(min=1e-3)
    values, log_slope = values / spread, log_slope - spread.log()
    kernel, log_noise = warped.gp.kernel, warped.log_noise - spread.log()
    # The noise σ after a warp of slope g' is a variance s = σ²/g'² within f.
    log_after = log_noise + 0.5 * math.log(NOISE_SHARE) - log_slope.median()  # log σ
    margin = torch.ones_like(spread)
    low, high = values.min() - margin, values.max() + margin
    centre = values.mean()
    prior = WarpPrior(
        (0.5 * margin).log(), margin.log(), log_after, low - centre, (high - low).log()
    )
    return Parameters(
        SquaredExponential(kernel.log_lengths, kernel.log_signal - spread.log()),
        log_noise,
        -centre,
        prior,
        values - centre,
        2 * (log_after + log_slope),
    )


@dataclass(frozen=True)
class FittedBayesianWarpedGP:
    """A trained Bayesian warped GP."""

    rows: StandardisedRows
    gp: ConditionedGP
    """The GP of f − m, given the pseudo-targets."""
    parameters: Parameters
    warp: WarpPosterior

    @classmethod
    def from_parameters(
        cls, parameters: Parameters, rows: StandardisedRows, n_points: int
    ) -> FittedBayesianWarpedGP:
        """Condition the GP and the warp with given parameters."""
        given = parameters.pseudo_targets - parameters.offset
        gp = condition(parameters.kernel, rows.x, parameters.noise, given)
        return cls(rows, gp, parameters, evidence_bound(parameters, rows, n_points).warp)

    def marginals(self, x: Float64[np.ndarray, "M D"]) -> WarpedMarginals:
        """Return q(f) at rows, with the warp."""
        mean, variance = self.gp.predict(self.rows.inputs(x))
        deviation = (variance + (2 * self.parameters.log_noise).exp()).sqrt()
        return WarpedMarginals(self.warp, self.parameters.offset + mean, deviation)

    def predict(self, x: Float64[np.ndarray, "M D"]) -> MixturePredictive:
        """Return the predictive densities at rows."""
        marginals = self.marginals(x)
        mixtures = partial(marginals.mixtures, marginals.n_nodes())
        return MixturePredictive.from_mixtures(mixtures, self.rows.scaling)
