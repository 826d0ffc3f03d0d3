"""The Bayesian warped GP of Lázaro-Gredilla (2012).

y = g(f(x)) + ε, where f ~ GP(m, k + τ²δ) and the warp g is a GP around the identity. The warp makes
the noise τ within f skewed, or larger for some targets than for others.

q(f) = N(μ, Σ) with Σ = (K_f⁻¹ + Λ)⁻¹ and a diagonal Λ (Opper and Archambeau) is the prior
N(m, K_f), K_f = K + τ²I, conditioned on pseudo-targets t_n of noise variances s_n = 1/Λ_n. With
M = K + diag(τ² + s), β = M⁻¹(t − m) and d = diag M⁻¹ its marginals are

    μ_n = t_n − s_n β_n,   Σ_nn = s_n − s_n² d_n,

and log p(y) is at least the warp's bound (below) less KL(q‖p) of f,

    ½(Σ_n s_n d_n − N + βᵀ(t − m) − Σ_n s_n β_n² + log|M| − Σ_n log s_n).

The warp is integrated out for arguments that are Gaussian: y_n = g(f_n) + ε_n, ε_n ~ N(0, σ²), and
g(f) = f + h(f) where h ~ GP(0, c), c(f, f') = α² exp(−½(f − f')²/ℓ²). The values u = h(z) + jitter
at an even grid z, of covariance C, represent the posterior of h.

With f_n ~ N(μ_n, v_n) under q let k_n = c(f_n, z), r_n = y_n − f_n, and

    Ψ = Σ_n E k_n k_nᵀ,   b = Σ_n E r_n k_n,   R = Σ_n E r_n² = Σ_n (y_n − μ_n)² + v_n,

    A = C + Ψ/σ².

The bound of Titsias and Lawrence on E log p(y|f) less the divergence of u, at the best q(u), is

    −½(N log 2πσ² + (R + Nα² − tr C⁻¹Ψ)/σ² + log|A| − log|C| − bᵀA⁻¹b/σ⁴),

and q(u) = N(CA⁻¹b/σ², CA⁻¹C).

Predictive densities are p(y) = ∫ N(y; m(f), v(f) + σ²) q(f) df, where m and v are the mean and
variance of the warp at f. By the trapezoid rule in ξ, f = μ + dξ, the
integral becomes a mixture of Gaussians, which gives the density, the moments and the quantiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.cholesky import cholesky
from sswim.base.record import Record
from sswim.ensemble.mixture import Mixture
from sswim.rows import Scaling
from sswim_lab.peers.dense_gp import (
    LOG_LENGTH,
    LOG_NOISE,
    LOG_SIGNAL,
    ConditionedGP,
    DenseMethod,
    SquaredExponential,
    condition,
    minimise,
    plus_diagonal,
    solve_system,
)
from sswim_lab.peers.mixture import MixturePredictive, gaussian_mixture
from sswim_lab.peers.protocol import StandardisedRows, standardise
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
        return MixturePredictive(
            partial(marginals.mixtures, marginals.n_nodes(), self.rows.scaling)
        )


JITTER = 1e-6
"""Variance of the jitter of u, as a fraction of α²."""


@dataclass(frozen=True)
class WarpPrior(Record):
    """Hyper-parameters of the GP h, of the noise after the warp, and of the grid."""

    log_amplitude: Float64[Tensor, ""]
    """log α"""
    log_length: Float64[Tensor, ""]
    """log ℓ"""
    log_noise: Float64[Tensor, ""]
    """log σ"""
    low: Float64[Tensor, ""]
    """First point of the grid."""
    log_width: Float64[Tensor, ""]
    """Log of the distance from the first to the last point."""

    @property
    def noise_variance(self) -> Float64[Tensor, ""]:
        """σ²"""
        return (2 * self.log_noise).exp()

    @property
    def amplitude_variance(self) -> Float64[Tensor, ""]:
        """α²"""
        return (2 * self.log_amplitude).exp()

    def grid(self, n_points: int) -> Float64[Tensor, " m"]:
        """Return the evenly spaced points z."""
        steps = torch.linspace(0, 1, n_points, dtype=torch.float64, device=self.low.device)
        return self.low + self.log_width.exp() * steps

    def kernel(
        self, values: Float64[Tensor, "*N"], points: Float64[Tensor, " m"]
    ) -> Float64[Tensor, "*N m"]:
        """Return c(f, z)."""
        distance = (values[..., None] - points) * (-self.log_length).exp()
        return (2 * self.log_amplitude - 0.5 * distance.square()).exp()

    def factor(self, points: Float64[Tensor, " m"]) -> Float64[Tensor, "m m"]:
        """Return the lower Cholesky factor of C."""
        jitter = JITTER * self.amplitude_variance * torch.eye(len(points)).to(points)
        return cholesky(self.kernel(points, points) + jitter, "covariance of the warp")


@dataclass(frozen=True)
class Psi(Record):
    """Expectations of k = c(f, z) under f_n ~ N(μ_n, v_n)."""

    first: Float64[Tensor, "N m"]
    """E k_n"""
    weighted: Float64[Tensor, "N m"]
    """E f_n k_n"""
    second: Float64[Tensor, "m m"]
    """Ψ"""


def psi_statistics(
    prior: WarpPrior,
    n_points: int,
    mean: Float64[Tensor, " N"],
    variance: Float64[Tensor, " N"],
) -> Psi:
    """Return the expectations in closed form.

    E c(f, z) = α² √(ℓ²/t) exp(−½(μ − z)²/t) with t = ℓ² + v; f then has the mean (ℓ²μ + vz)/t. And
    c(f, z) c(f, z') = c(z, z')^½ α³ exp(−(f − z̄)²/ℓ²) where the midpoints z̄ = ½(z + z') of an even
    grid are themselves an even grid, of 2m − 1 points.
    """
    points = prior.grid(n_points)
    square, amplitude = (2 * prior.log_length).exp(), prior.amplitude_variance
    total = square + variance[:, None]
    first = amplitude * (square / total).sqrt()
    first = first * (-0.5 * (mean[:, None] - points).square() / total).exp()
    weighted = first * (square * mean[:, None] + variance[:, None] * points) / total
    midpoints = prior.grid(2 * n_points - 1)
    total = square + 2 * variance[:, None]
    bumps = (square / total).sqrt() * (-(mean[:, None] - midpoints).square() / total).exp()
    between = amplitude.sqrt() ** 3 * prior.kernel(points, points).sqrt()
    return Psi(first, weighted, between * bumps.sum(0).unfold(0, n_points, 1))


@dataclass(frozen=True)
class WarpPosterior(Record):
    """q(h), represented by the values u at the grid."""

    prior: WarpPrior
    points: Float64[Tensor, " m"]
    """z"""
    factor: Float64[Tensor, "m m"]
    """L, the lower Cholesky factor of C."""
    inner: Float64[Tensor, "m m"]
    """Lower Cholesky factor of I + L⁻¹ΨL⁻ᵀ/σ² = L⁻¹AL⁻ᵀ."""
    projected: Float64[Tensor, " m"]
    """inner⁻¹L⁻¹b/σ², whose square is bᵀA⁻¹b/σ⁴."""
    bound: Float64[Tensor, ""]
    """Lower bound on E log p(y|f), less the divergence of u."""

    def predict(
        self, values: Float64[Tensor, "*N"]
    ) -> tuple[Float64[Tensor, "*N"], Float64[Tensor, "*N"]]:
        """Return the mean and variance of g(f).

        They are f + kᵀA⁻¹b/σ² and c(f, f) − kᵀC⁻¹k + kᵀA⁻¹k, where k = c(f, z).
        """
        flat = values.reshape(-1)
        cross = self.prior.kernel(flat, self.points).mT
        white = torch.linalg.solve_triangular(self.factor, cross, upper=False)
        known = torch.linalg.solve_triangular(self.inner, white, upper=False)
        variance = self.prior.amplitude_variance - white.square().sum(0) + known.square().sum(0)
        mean = flat + self.projected @ known
        return mean.reshape(values.shape), variance.clamp(min=0).reshape(values.shape)


def warp_posterior(
    prior: WarpPrior,
    n_points: int,
    y: Float64[Tensor, " N"],
    mean: Float64[Tensor, " N"],
    variance: Float64[Tensor, " N"],
) -> WarpPosterior:
    """Return the best q(h) for targets y and f_n ~ N(μ_n, v_n)."""
    points, noise = prior.grid(n_points), prior.noise_variance
    psi = psi_statistics(prior, n_points, mean, variance)
    factor = prior.factor(points)
    half = torch.linalg.solve_triangular(factor, psi.second, upper=False)
    white = torch.linalg.solve_triangular(factor, half.mT, upper=False)  # L⁻¹ΨL⁻ᵀ
    identity = torch.eye(n_points).to(white)
    inner = cholesky(identity + white / noise, "covariance of the warp's values")
    linear = y @ psi.first - psi.weighted.sum(0)  # b
    projected = torch.linalg.solve_triangular(factor, linear[:, None], upper=False)
    projected = torch.linalg.solve_triangular(inner, projected, upper=False)[:, 0] / noise
    residual = (y - mean).square().sum() + variance.sum()  # R
    unknown = len(y) * prior.amplitude_variance - white.diagonal().sum()
    bound = -0.5 * (
        len(y) * (math.log(2 * math.pi) + 2 * prior.log_noise)
        + (residual + unknown) / noise
        + 2 * inner.diagonal().log().sum()
        - projected.square().sum()
    )
    return WarpPosterior(prior, points, factor, inner, projected, bound)


_REACH = 8.0
"""Half-width of the integral in standard deviations of q(f); 1e-15 of q(f) lies outside."""
_MIN_NODES, _MAX_NODES = 257, 8193
_CHUNK_NODES = 2**14
"""Number of nodes of a chunk of rows: few enough for a processor's cache."""


@dataclass(frozen=True)
class WarpedMarginals(Record):
    """Gaussian marginals q(f) = N(μ, d²) at rows, and the warp that is applied to them."""

    warp: WarpPosterior
    mean: Float64[Tensor, " M"]
    """μ"""
    deviation: Float64[Tensor, " M"]
    """d"""

    def n_nodes(self) -> int:
        """Return the number of nodes that resolves the steepest part of the warp.

        The integrand's factors have the deviations 1 and √(v + σ²)/(d|m'|) in ξ. Nodes that are no
        further apart than the deviation of their product leave errors of about exp(−2π²) = 3e-9.
        """
        reach = _REACH * self.deviation
        low, high = (self.mean - reach).amin().item(), (self.mean + reach).amax().item()
        values = torch.linspace(low, high, _MAX_NODES, dtype=torch.float64).to(self.mean)
        mean, variance = self.warp.predict(values)
        slope = mean.diff().abs() / values.diff()
        steepest = (slope / (variance[1:] + self.warp.prior.noise_variance).sqrt()).max()
        narrow = torch.hypot(steepest * self.deviation.max(), torch.ones_like(steepest))
        return int(min(max(math.ceil(2 * _REACH * narrow.item()), _MIN_NODES), _MAX_NODES))

    def mixtures(self, n_nodes: int, scaling: Scaling) -> Iterator[Mixture]:
        """Yield the densities of the targets, one chunk of rows after another."""
        nodes = torch.linspace(-_REACH, _REACH, n_nodes, dtype=torch.float64).to(self.mean)
        weights = (-0.5 * nodes.square()).softmax(0)
        size = max(1, _CHUNK_NODES // n_nodes)
        for mean, deviation in zip(self.mean.split(size), self.deviation.split(size), strict=True):
            means, variances = self.warp.predict(mean + deviation * nodes[:, None])
            variances = variances + self.warp.prior.noise_variance
            yield gaussian_mixture(weights, means, variances, scaling)
