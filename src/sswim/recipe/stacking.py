"""Stacking: weights and noise levels of the kinds of members, learnt from held-out rows.

A member's hyper-parameters were learnt without some rows, so its predictions of these rows are
honest. Leave-one-out predictions are not: they refit the weights of the features, but not the
warps. With the kinds' predictions N(μ_k, v_k + e^{c_k}σ_k²) of z_k = T_k(y), the weights w and the
calibrations c maximise

    Σ log Σ_k w_k N(z_k; μ_k, v_k + e^{c_k}σ_k²) T_k'(y) + Σ_k log w_k − ½Σ_k c_k²·strength,

The first penalty is that of a Dirichlet prior, which keeps every kind in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import Record

STEPS = 100
"""Largest number of L-BFGS steps; there are few unknowns."""

CALIBRATION_STRENGTH = 0.1
"""Inverse prior variance of c; noise levels may be wrong by orders of magnitude."""


@dataclass(frozen=True)
class OutOfFold(Record):
    """Predictions of each kind of member for rows that its hyper-parameters did not see."""

    residual: Float64[Tensor, "*K N T"]
    """z − μ, the residuals."""
    latent_variance: Float64[Tensor, "*K N T"]
    """v, the variance of the function."""
    noise: Float64[Tensor, "*K N T"]
    """σ², the variance of the noise."""
    log_slope: Float64[Tensor, "*K N T"]
    """log T'(y)"""
    weight: Float64[Tensor, " N"] | None = None
    """How many times each row counts."""

    def log_density(self, calibration: Float64[Tensor, "K T"]) -> Float64[Tensor, "*K N T"]:
        """Return log p(y) under every kind with its corrected noise level."""
        variance = self.latent_variance + self.noise * calibration.exp()[:, None, :]
        squared = self.residual.square() / variance
        return -0.5 * (squared + (2 * math.pi * variance).log()) + self.log_slope


@dataclass(frozen=True)
class Stacking(Record):
    """Weights and calibrations of the kinds."""

    weights: Float64[Tensor, " K"]
    """w, adding up to one."""
    calibration: Float64[Tensor, "K T"]
    """c, to be added to the log of the noise variance."""


def mixture_log_density(rows: OutOfFold, stacking: Stacking) -> Float64[Tensor, "N T"]:
    """Return log p(y) of the rows under the mixture of the kinds."""
    log_weights = stacking.weights.log()[:, None, None]
    return (rows.log_density(stacking.calibration) + log_weights).logsumexp(0)


def equal_stacking(n_kinds: int, n_targets: int) -> Stacking:
    """Return equal weights, and noise levels as they were learnt."""
    return Stacking(
        torch.full((n_kinds,), 1 / n_kinds, dtype=torch.float64),
        torch.zeros(n_kinds, n_targets, dtype=torch.float64),
    )


def learn_stacking(rows: OutOfFold, *, stack: bool = True, calibrate: bool = True) -> Stacking:
    """Return the weights and calibrations with the greatest out-of-fold density.

    Args:
        rows: Out-of-fold predictions.
        stack: Whether weights are learnt; else all are equal.
        calibrate: Whether noise levels are corrected.
    """
    n_kinds, _, n_targets = rows.residual.shape
    start = equal_stacking(n_kinds, n_targets).to(device=rows.residual.device)
    logits = start.weights.log().requires_grad_(stack)
    calibration = start.calibration.clone().requires_grad_(calibrate)
    free = [parameter for parameter in (logits, calibration) if parameter.requires_grad]
    if not free:
        return start
    count = rows.residual.shape[1] if rows.weight is None else rows.weight.sum()
    optimiser = torch.optim.LBFGS(free, max_iter=STEPS, line_search_fn="strong_wolfe")

    def evaluate() -> Tensor:
        optimiser.zero_grad()
        log_weights = logits.log_softmax(0)
        density = (rows.log_density(calibration) + log_weights[:, None, None]).logsumexp(0).sum(-1)
        fit = (density if rows.weight is None else rows.weight * density).sum()
        penalty = 0.5 * CALIBRATION_STRENGTH * calibration.square().sum() - log_weights.sum()
        loss = (penalty - fit) / count
        loss.backward()
        return loss

    with torch.enable_grad():
        optimiser.step(evaluate)
    return Stacking(logits.detach().softmax(0), calibration.detach())
