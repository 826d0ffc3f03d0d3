"""The warped GP of Snelson, Rasmussen and Ghahramani (2003).

A monotone z = T(y) = a + y + Σ_k (c_k/b_k)·tanh(b_k(y − m_k)), where b_k and c_k are positive, is a
GP with noise. All parameters maximise the evidence of y, log p(z) + Σ_n log T'(y_n).
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

from sswim.ensemble.mixture import mix
from sswim.members.density import Density
from sswim.members.linear_regression import Prediction
from sswim.warps.output_warp import TanhMap
from sswim_lab.peers.dense_gp import (
    LOG_LENGTH,
    LOG_NOISE,
    LOG_SIGNAL,
    ConditionedGP,
    DenseMethod,
    SquaredExponential,
    condition,
    maximise_evidence,
    minimise,
    negative_log_evidence,
)
from sswim_lab.peers.mixture import MixturePredictive
from sswim_lab.peers.protocol import StandardisedRows, standardise

SHIFT = (-20.0, 20.0)
"""Bounds of a."""
MAX_STEEPNESS = 3.0
"""Upper bound of b: no step is narrower than a third of the targets' spread.

Without it, tied targets would pull a step to each of their values, where the density has no bound.
"""
LOG_STEEPNESS = (-3.0, math.log(MAX_STEEPNESS))
"""Bounds of log b."""
LOG_SLOPE = (-8.0, 4.0)
"""Bounds of log c: the slope of the tails is one, and that of a step at most 55 larger."""


@dataclass(frozen=True)
class MLWGP(DenseMethod):
    """A warped GP whose warp and kernel are learnt by maximum likelihood."""

    n_terms: int
    """K, the number of steps of the warp."""
    start_iterations: int = 15
    iterations: int = 150

    def settings(self) -> Mapping[str, Any]:
        """Return the kernel, the warp, and the settings of their training."""
        return {**super().settings(), "n_terms": self.n_terms, "most_steep": MAX_STEEPNESS}

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> FittedWarpedGP:
        """Maximise the evidence; nothing is random."""
        rows = standardise(x, y, self.device(device))
        return fit_warped_gp(rows, self.n_terms, self.start_iterations, self.iterations)


def fit_warped_gp(
    rows: StandardisedRows, n_terms: int, start_iterations: int, iterations: int
) -> FittedWarpedGP:
    """Maximise the evidence, starting from a GP without a warp and several warps."""
    gp = maximise_evidence(rows, start_iterations, start_iterations)
    starts = [np.concatenate((gp, warp)) for warp in _starting_warps(rows.y, n_terms)]
    bounds = [LOG_LENGTH] * rows.x.shape[1] + [LOG_SIGNAL, LOG_NOISE, SHIFT]
    # The flank of a step beyond the targets can raise the evidence, and would be a cliff for new
    # targets further out.
    within = (rows.y.min().item(), rows.y.max().item())
    for limits in (within, LOG_STEEPNESS, LOG_SLOPE):
        bounds += [limits] * n_terms

    def objective(point: Float64[Tensor, " P"]) -> Float64[Tensor, ""]:
        return negative_log_likelihood(point, n_terms, rows) / len(rows.y)

    point = minimise(objective, starts, bounds, rows.x.device, start_iterations, iterations)
    return FittedWarpedGP.from_point(rows, n_terms, torch.as_tensor(point, device=rows.x.device))


def _starting_warps(y: Float64[Tensor, " N"], n_terms: int) -> list[Float64[np.ndarray, " P"]]:
    """Return warps near the identity, steep at low targets, and steep at high targets."""
    values = y.cpu().numpy()
    starts = []
    for power, slope in ((1.0, 0.3), (3.0, 2.0), (1 / 3, 2.0)):
        levels = ((np.arange(n_terms) + 0.5) / n_terms) ** power
        # Half by rank and half by value: quantiles of tied targets alone would coincide.
        even = values.min() + levels * np.ptp(values)
        location = 0.5 * (np.quantile(values, levels) + even)
        log_slope = np.full(n_terms, np.log(slope / n_terms))
        starts.append(np.concatenate(([0.0], location, np.zeros(n_terms), log_slope)))
    return starts


def negative_log_likelihood(
    point: Float64[Tensor, " P"], n_terms: int, rows: StandardisedRows
) -> Float64[Tensor, ""]:
    """Return −log p(z) − Σ_n log T'(y_n)."""
    kernel, log_noise, output = _unpack(point, n_terms)
    warped, log_slope = output.forward(rows.y[:, None])
    evidence = negative_log_evidence(kernel, log_noise, rows.x, warped[:, 0])
    return evidence - log_slope.sum()


def _unpack(
    point: Float64[Tensor, " P"], n_terms: int
) -> tuple[SquaredExponential, Float64[Tensor, ""], TanhMap]:
    """Return the kernel, the log standard deviation of the noise, and the warp of a point."""
    n_inputs = len(point) - 3 - 3 * n_terms
    log_lengths, rest = point[:n_inputs], point[n_inputs:]
    location, log_steepness, log_slope = rest[3:, None].split(n_terms)
    output = TanhMap(rest[2:3], location, log_steepness, log_slope.exp())
    return SquaredExponential(log_lengths, rest[0]), rest[1], output


@dataclass(frozen=True)
class FittedWarpedGP:
    """A trained warped GP."""

    rows: StandardisedRows
    gp: ConditionedGP
    """The GP of z, given the warped targets."""
    log_noise: Float64[Tensor, ""]
    output: TanhMap
    """T"""

    @classmethod
    def from_point(
        cls, rows: StandardisedRows, n_terms: int, point: Float64[Tensor, " P"]
    ) -> FittedWarpedGP:
        """Condition the GP with the parameters of a point of the optimiser."""
        kernel, log_noise, output = _unpack(point, n_terms)
        warped, _ = output.forward(rows.y[:, None])
        gp = condition(kernel, rows.x, (2 * log_noise).exp(), warped[:, 0])
        return cls(rows, gp, log_noise, output)

    def predict(self, x: Float64[np.ndarray, "M D"]) -> MixturePredictive:
        """Return the predictive densities at rows."""
        mean, latent = self.gp.predict(self.rows.inputs(x))
        observed = latent + (2 * self.log_noise).exp()
        gaussian = Prediction(mean[:, None], latent[:, None], observed[:, None])
        density = Density(gaussian, self.output, self.rows.scaling)
        mixture = mix([density], mean.new_ones(1))
        return MixturePredictive(lambda: [mixture])
