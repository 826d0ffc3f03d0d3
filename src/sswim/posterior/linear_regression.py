"""Bayesian linear regression on features: statistics, posterior, evidence, leave-one-out.

Weights N(0, s²I), features Φ ∈ R^{N×F}, targets z = T(y) ∈ R^{N×T}, their noise σ²/w(x): constant
where w = 1. A row may count c times, and W = diag(c·w). The targets are independent given the
features, each with its own s², σ², w and T. (Where rows are weighed less than their noise says, w^τ
stands for w in W alone.) With λ = σ²/s²,

    A = ΦᵀWΦ + λI = LLᵀ,    α = A⁻¹ΦᵀWz,

everything below follows. The data enter through sums over rows alone, the ``Statistics``. They are
kept and factorised in float64, whatever the precision of the features.

Several members are looked at together: all tensors may have further axes *B in front, and rows that
lack them are shared by all members.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sswim.base.cholesky import solve, triangular_inverse
from sswim.base.record import Record
from sswim.model.observations import Observations
from sswim.posterior.evidence import evidence, factorised
from sswim.posterior.prediction import Prediction
from sswim.posterior.statistics import Statistics


@dataclass(frozen=True)
class Posterior(Record):
    """The weights given the rows: N(α, σ²A⁻¹) for every target."""

    mean: Float64[Tensor, "*B F T"]
    """α"""
    factor: Float64[Tensor, "*B T F F"]
    """L"""
    noise: Float64[Tensor, "*B T"]
    """σ²"""
    calibration: Float64[Tensor, "*B T"] | None = None
    """c: observations turned out to have the noise e^c·σ², while rows are weighed by σ²."""

    def predict(
        self,
        features: Float[Tensor, "*B N F"],
        log_precision: Float64[Tensor, "*B N T"] | None = None,
    ) -> Prediction:
        """Mean φᵀα, latent variance σ²φᵀA⁻¹φ, and with the noise σ²/w that of an observation."""
        features = features.to(torch.float64)
        latent = self.noise[..., None, :] * self.leverage(features)
        return Prediction(features @ self.mean, latent, latent + self.noise_at(log_precision))

    def noise_at(
        self, log_precision: Float64[Tensor, "*B N T"] | None
    ) -> Float64[Tensor, "*B N T"] | Float64[Tensor, "*B 1 T"]:
        """e^c·σ²/w, the variance of the noise where an input is."""
        noise = self.noise[..., None, :]
        if self.calibration is not None:
            noise = noise * self.calibration.exp()[..., None, :]
        return noise if log_precision is None else noise * (-log_precision).exp()

    def leverage(self, features: Float64[Tensor, "*B N F"]) -> Float64[Tensor, "*B N T"]:
        """φᵀA⁻¹φ = ‖L⁻¹φ‖² of every row."""
        return self._whiten(features).square().sum(-2).mT

    def covariance(self, features: Float[Tensor, "*B N F"]) -> Float64[Tensor, "*B T N N"]:
        """Joint latent covariance σ²ΦA⁻¹Φᵀ of the rows."""
        whitened = self._whiten(features.to(torch.float64))
        return self.noise[..., None, None] * (whitened.mT @ whitened)

    def sample_weights(self, n: int, generator: torch.Generator) -> Float64[Tensor, "n F T"]:
        """Draw weights α + σL⁻ᵀz of one member; a draw is a function, φᵀw wherever evaluated.

        The generator lives on the CPU, so that every device sees the same draw.
        """
        n_targets, n_features, _ = self.factor.shape
        normal = torch.randn(n_targets, n_features, n, generator=generator, dtype=torch.float64).to(
            self.factor.device
        )
        deviation = torch.linalg.solve_triangular(self.factor.mT, normal, upper=True)
        deviation = self.noise.sqrt()[:, None, None] * deviation
        return self.mean + deviation.permute(2, 1, 0)

    def _whiten(self, features: Float64[Tensor, "*B N F"]) -> Float64[Tensor, "*B T F N"]:
        """L⁻¹Φᵀ"""
        each = features.mT[..., None, :, :]  # the same for every target
        # On a GPU a product is many times as fast as a solution.
        if self.factor.is_cuda and not self.factor.requires_grad:
            return self._root @ each
        return torch.linalg.solve_triangular(self.factor, each, upper=False)

    @cached_property
    def _root(self) -> Float64[Tensor, "*B T F F"]:
        """L⁻¹"""
        return triangular_inverse(self.factor)


def posterior(
    statistics: Statistics,
    noise: Float64[Tensor, "*B T"],
    signal: Float64[Tensor, "*B T"],
    calibration: Float64[Tensor, "*B T"] | None = None,
) -> Posterior:
    """Condition the weights on the rows behind the statistics.

    Conditioning on new rows as well is ``posterior(old + new, …)``: exact, and without old rows.

    Args:
        statistics: Sums over all rows.
        noise: σ² of every target.
        signal: s² of every target.
        calibration: c of every target; None for zero.
    """
    _check_targets(statistics, noise)
    factor = factorised(statistics.gram, noise / signal)
    mean = solve(factor, statistics.moment.mT).mT
    return Posterior(mean=mean, factor=factor, noise=noise, calibration=calibration)


def negative_log_evidence(
    statistics: Statistics, noise: Float64[Tensor, "*B T"], signal: Float64[Tensor, "*B T"]
) -> Float64[Tensor, "*B"]:
    """−log N(z; 0, s²ΦΦᵀ + σ²W⁻¹) − Σ log T'(y), summed over the targets.

        ½σ⁻²(zᵀWz − ‖L⁻¹ΦᵀWz‖²) + Σ log L_ii − ½F log λ + ½N log 2πσ² − Σ c(½log w + log T'(y))

    A row counts c times; N = Σc.
    (The paper's line has D where F belongs, and M where N belongs.)
    """
    _check_targets(statistics, noise)
    sums = statistics.gram, statistics.moment, statistics.energy
    return (
        evidence(*sums, noise, signal)
        + 0.5 * statistics.count[..., None] * (2 * math.pi * noise).log()
        - statistics.log_scale
    ).sum(-1)


def leave_one_out(rows: Observations, posterior: Posterior) -> Prediction:
    """Predict z of every row from all others, in closed form.

    With the leverage h = φᵀA⁻¹φ of a row among the posterior's, taking weight u of it away leaves

        residual (z − φᵀα)/(1 − uh),    latent variance σ²h/(1 − uh).

    One observation is left out, u = min(c, 1)·w; for c = 1 its variance is σ²/w/(1 − wh).
    """
    features = rows.features.to(torch.float64)
    leverage = posterior.leverage(features)
    removed: Tensor | float = 1.0
    log_weight = rows.log_weight()
    if log_weight is not None:
        removed = log_weight.exp()
    if rows.multiplicity is not None:
        removed = removed * rows.multiplicity.clamp(max=1.0)[..., None]
    remaining = 1 - removed * leverage
    residual = (rows.targets - features @ posterior.mean) / remaining
    latent = posterior.noise[..., None, :] * leverage / remaining
    observation = latent + posterior.noise_at(rows.log_precision)
    return Prediction(rows.targets - residual, latent, observation)


def _check_targets(statistics: Statistics, noise: Float64[Tensor, "*B T"]) -> None:
    n_targets, given = noise.shape[-1], statistics.moment.shape[-1]
    if given != n_targets:
        raise ValueError(f"Rows must have the model's {n_targets} targets. Got {given}.")
