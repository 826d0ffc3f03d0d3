"""Bayesian linear regression on features: statistics, posterior, evidence, leave-one-out.

Weights N(0, s²I), noise σ², features Φ ∈ R^{N×F}, row weights W = diag(w), targets y ∈ R^{N×T}. The
targets are independent given the features, each with its own s² and σ². With λ = σ²/s²,

    A = ΦᵀWΦ + λI = LLᵀ,    α = A⁻¹ΦᵀWy,

everything below follows. The data enter through sums over rows alone, the ``Statistics``. They are
kept and factorised in float64, whatever the precision of the features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sswim.factorisation import cholesky
from sswim.prediction import Prediction
from sswim.record import Record


@dataclass(frozen=True)
class Statistics(Record):
    """Sums over rows; those of two sets of rows add up to those of their union."""

    gram: Float64[Tensor, "F F"]
    """ΦᵀWΦ"""
    moment: Float64[Tensor, "F T"]
    """ΦᵀWy"""
    energy: Float64[Tensor, " T"]
    """yᵀWy"""
    count: Float64[Tensor, ""]
    """Σw, the number of rows when every weight is one."""

    def __add__(self, other: Statistics) -> Statistics:
        """The statistics of both sets of rows together."""
        return Statistics(
            *(mine + theirs for mine, theirs in zip(self.tensors(), other.tensors(), strict=True))
        )


def statistics(
    features: Float[Tensor, "N F"],
    targets: Float64[Tensor, "N T"],
    weight: Float64[Tensor, " N"] | None = None,
) -> Statistics:
    """Sum rows up. Differentiable in features, targets and weights alike.

    A weight is a multiplicity: a row of weight two is the row twice.
    """
    weighted = targets if weight is None else targets * weight[:, None]  # Wy
    moment = features.mT @ weighted.to(features.dtype)
    return Statistics(
        gram=gram(features, None if weight is None else weight.to(features.dtype)),
        moment=moment.to(torch.float64),
        energy=(targets * weighted).sum(0),
        count=targets.new_tensor(float(len(targets))) if weight is None else weight.sum(),
    )


def gram(
    features: Float[Tensor, "N F"], weight: Float[Tensor, " N"] | None = None
) -> Float64[Tensor, "F F"]:
    """ΦᵀWΦ: the one product of size N·F² that cannot be avoided."""
    product: Tensor = _Gram.apply(features, weight)
    return product


class _Gram(torch.autograd.Function):
    """ΦᵀWΦ with the single product WΦ(Ḡ + Ḡᵀ) as its backward, where autograd would take two."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor | None) -> Tensor:
        ctx.save_for_backward(features, weight)
        weighted = features if weight is None else features * weight[:, None]
        return (features.mT @ weighted).to(torch.float64)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None]:
        features, weight = ctx.saved_tensors
        product = features @ (gradient + gradient.mT).to(features.dtype)  # Φ(Ḡ + Ḡᵀ)
        if weight is None:
            return product, None
        return product * weight[:, None], 0.5 * (product * features).sum(-1)


@dataclass(frozen=True)
class Posterior(Record):
    """The weights given the rows: N(α, σ²A⁻¹) for every target."""

    mean: Float64[Tensor, "F T"]
    """α"""
    factor: Float64[Tensor, "T F F"]
    """L"""
    noise: Float64[Tensor, " T"]
    """σ²"""

    def predict(self, features: Float[Tensor, "N F"]) -> Prediction:
        """Mean φᵀα, latent variance σ²φᵀA⁻¹φ, and with the noise σ² that of an observation."""
        features = features.to(torch.float64)
        latent = self.noise * self.leverage(features)
        return Prediction(features @ self.mean, latent, latent + self.noise)

    def leverage(self, features: Float64[Tensor, "N F"]) -> Float64[Tensor, "N T"]:
        """φᵀA⁻¹φ = ‖L⁻¹φ‖² of every row."""
        return self._whiten(features).square().sum(-2).mT

    def covariance(self, features: Float[Tensor, "N F"]) -> Float64[Tensor, "T N N"]:
        """Joint latent covariance σ²ΦA⁻¹Φᵀ of the rows."""
        whitened = self._whiten(features.to(torch.float64))
        return self.noise[:, None, None] * (whitened.mT @ whitened)

    def sample_weights(self, n: int, generator: torch.Generator) -> Float64[Tensor, "n F T"]:
        """Draw weights α + σL⁻ᵀz; a draw is a function, φᵀw wherever it is evaluated.

        The generator lives on the CPU, so that every device sees the same draw.
        """
        n_targets, n_features, _ = self.factor.shape
        normal = torch.randn(n_targets, n_features, n, generator=generator, dtype=torch.float64).to(
            self.factor.device
        )
        deviation = torch.linalg.solve_triangular(self.factor.mT, normal, upper=True)
        deviation = self.noise.sqrt()[:, None, None] * deviation
        return self.mean + deviation.permute(2, 1, 0)

    def _whiten(self, features: Float64[Tensor, "N F"]) -> Float64[Tensor, "T F N"]:
        """L⁻¹Φᵀ"""
        return torch.linalg.solve_triangular(self.factor, features.mT, upper=False)


def posterior(
    statistics: Statistics, noise: Float64[Tensor, " T"], signal: Float64[Tensor, " T"]
) -> Posterior:
    """Condition the weights on the rows behind the statistics.

    Conditioning on new rows as well is ``posterior(old + new, …)``: exact, and without old rows.

    Args:
        statistics: Sums over all rows.
        noise: σ² of every target.
        signal: s² of every target.
    """
    factor = _factorise(statistics, noise, signal)
    moment = statistics.moment.mT[..., None]  # (T, F, 1)
    mean = torch.cholesky_solve(moment, factor)[..., 0].mT
    return Posterior(mean=mean, factor=factor, noise=noise)


def negative_log_evidence(
    statistics: Statistics, noise: Float64[Tensor, " T"], signal: Float64[Tensor, " T"]
) -> Float64[Tensor, ""]:
    """−log N(y; 0, s²ΦΦᵀ + σ²I), summed over the targets; a row of weight w counts w times.

        ½σ⁻²(yᵀWy − ‖L⁻¹ΦᵀWy‖²) + Σ log L_ii − ½F log λ + ½N log 2πσ²,    N = Σw

    (The paper's line has D where F belongs, and M where N belongs.)
    """
    factor = _factorise(statistics, noise, signal)
    moment = statistics.moment.mT[..., None]
    explained = torch.linalg.solve_triangular(factor, moment, upper=False).square().sum((-2, -1))
    log_determinant = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)  # ½ log|A|
    n_features = factor.shape[-1]
    return (
        0.5 * (statistics.energy - explained) / noise
        + log_determinant
        - 0.5 * n_features * (noise / signal).log()
        + 0.5 * statistics.count * (2 * math.pi * noise).log()
    ).sum()


def leave_one_out(
    features: Float[Tensor, "N F"],
    targets: Float64[Tensor, "N T"],
    posterior: Posterior,
    weight: Float64[Tensor, " N"] | None = None,
) -> Prediction:
    """Predict every row from all others, in closed form.

    With the leverage h = φᵀA⁻¹φ of a row among the posterior's, taking weight u of it away leaves

        residual (y − φᵀα)/(1 − uh),    latent variance σ²h/(1 − uh).

    For u = 1 an observation's variance is σ²/(1 − h). One observation is left out: u = min(w, 1).
    """
    features = features.to(torch.float64)
    leverage = posterior.leverage(features)
    removed = 1.0 if weight is None else weight.clamp(max=1.0)[:, None]
    remaining = 1 - removed * leverage
    residual = (targets - features @ posterior.mean) / remaining
    latent = posterior.noise * leverage / remaining
    return Prediction(targets - residual, latent, latent + posterior.noise)


def _factorise(
    statistics: Statistics, noise: Float64[Tensor, " T"], signal: Float64[Tensor, " T"]
) -> Float64[Tensor, "T F F"]:
    """L of A = ΦᵀWΦ + λI, for every target's λ."""
    if len(noise) != statistics.moment.shape[1]:
        raise ValueError(
            f"Rows must have the model's {len(noise)} targets. Got {statistics.moment.shape[1]}."
        )
    ridge = noise / signal  # λ
    identity = torch.eye(len(statistics.gram), dtype=ridge.dtype, device=ridge.device)
    return cholesky(
        statistics.gram + ridge[:, None, None] * identity,
        name="matrix ΦᵀΦ + λI of the top-level regression",
    )
