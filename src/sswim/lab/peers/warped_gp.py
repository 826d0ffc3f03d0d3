"""The warped Gaussian process of Snelson, Rasmussen and Ghahramani (2003).

A monotone z = T(y) = a + y + Σ_k (c_k/b_k)·tanh(b_k(y − m_k)), where b_k and c_k are positive, is a
process with noise. Everything maximises the evidence of y, log p(z) + Σ_n log T'(y_n).
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

from sswim.lab.peers.dense_algebra import Kernel, Process, negative_log_evidence
from sswim.lab.peers.dense_gp import LENGTH, NOISE, SIGNAL, Dense, Problem, fit_gp, minimise
from sswim.model.output_warp import TanhMap
from sswim.posterior.density import Density
from sswim.posterior.prediction import Prediction

SHIFT = (-20.0, 20.0)
"""Of a."""
MOST_STEEP = 3.0
"""Of b. Equal targets ask for a step at each of their values, and so for a density without bound:
no step is narrower than a third of the targets' spread."""
LOG_STEEPNESS = (-3.0, math.log(MOST_STEEP))
LOG_SLOPE = (-8.0, 4.0)
"""Of log c: the slope of the tails is one, and a step's at most 55 more."""


@dataclass(frozen=True)
class MLWGP(Dense):
    """A warped process, its warp and its kernel learnt by maximum likelihood."""

    n_terms: int
    """K"""
    first: int = 15
    most: int = 150

    def settings(self) -> Mapping[str, Any]:
        """The kernel, the warp, and how they are trained."""
        return {**super().settings(), "n_terms": self.n_terms, "most_steep": MOST_STEEP}

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> FittedWarpedGP:
        """Maximise the evidence; nothing is random."""
        problem = Problem.of(x, y, self.device(device))
        return fit_warped(problem, self.n_terms, self.first, self.most)


def fit_warped(problem: Problem, n_terms: int, first: int, most: int) -> FittedWarpedGP:
    """From a process that is not warped, and several shapes of the warp."""
    process = fit_gp(problem, first, first)
    starts = [np.concatenate((process, warp)) for warp in _warps(problem.y, n_terms)]
    bounds = [LENGTH] * problem.x.shape[1] + [SIGNAL, NOISE, SHIFT]
    # A step beyond the targets would gain by its flank, and be a cliff to targets that are further.
    within = (problem.y.min().item(), problem.y.max().item())
    for limits in (within, LOG_STEEPNESS, LOG_SLOPE):
        bounds += [limits] * n_terms

    def objective(point: Float64[Tensor, " P"]) -> Float64[Tensor, ""]:
        return negative_log_likelihood(point, n_terms, problem) / len(problem.y)

    point = minimise(objective, starts, bounds, problem.x.device, first, most)
    return FittedWarpedGP.of(problem, n_terms, torch.as_tensor(point, device=problem.x.device))


def _warps(y: Float64[Tensor, " N"], n_terms: int) -> list[Float64[np.ndarray, " P"]]:
    """Near the identity; steep where targets are low; and steep where they are high."""
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
    point: Float64[Tensor, " P"], n_terms: int, problem: Problem
) -> Float64[Tensor, ""]:
    """That of z, less the log slopes."""
    kernel, log_noise, output = _unpack(point, n_terms)
    warped, log_slope = output.forward(problem.y[:, None])
    evidence = negative_log_evidence(kernel, log_noise, problem.x, warped[:, 0])
    return evidence - log_slope.sum()


def _unpack(
    point: Float64[Tensor, " P"], n_terms: int
) -> tuple[Kernel, Float64[Tensor, ""], TanhMap]:
    n_inputs = len(point) - 3 - 3 * n_terms
    log_lengths, rest = point[:n_inputs], point[n_inputs:]
    location, log_steepness, log_slope = rest[3:, None].split(n_terms)
    output = TanhMap(rest[2:3], location, log_steepness, log_slope.exp())
    return Kernel(log_lengths, rest[0]), rest[1], output


@dataclass(frozen=True)
class FittedWarpedGP:
    """A trained warped process."""

    problem: Problem
    process: Process
    log_noise: Float64[Tensor, ""]
    output: TanhMap

    @classmethod
    def of(cls, problem: Problem, n_terms: int, point: Float64[Tensor, " P"]) -> FittedWarpedGP:
        """With given parameters."""
        kernel, log_noise, output = _unpack(point, n_terms)
        warped, _ = output.forward(problem.y[:, None])
        process = Process.of(kernel, problem.x, (2 * log_noise).exp(), warped[:, 0])
        return cls(problem, process, log_noise, output)

    def predict(self, x: Float64[np.ndarray, "M D"]) -> WarpedPredictive:
        """The densities of the targets of rows."""
        mean, latent = self.process.predict(self.problem.standardised(x))
        observed = latent + (2 * self.log_noise).exp()
        gaussian = Prediction(mean[:, None], latent[:, None], observed[:, None])
        return WarpedPredictive(Density(gaussian, self.output, self.problem.scaling))


@dataclass(frozen=True)
class WarpedPredictive:
    """Densities of targets whose warped values are Gaussian."""

    density: Density

    @property
    def mean(self) -> Float64[np.ndarray, " M"]:
        """By quadrature."""
        return _column(self.density.mean)

    @property
    def variance(self) -> Float64[np.ndarray, " M"]:
        """Of an observation, by quadrature."""
        return _column(self.density.observation_variance)

    def log_density(self, y: Float64[np.ndarray, " M"]) -> Float64[np.ndarray, " M"]:
        """log p(y) of each: that of T(y), and log T'(y)."""
        targets = torch.as_tensor(y, device=self.density.gaussian.mean.device)
        return _column(self.density.log_density(targets[:, None]))

    def interval(
        self, coverage: float
    ) -> tuple[Float64[np.ndarray, " M"], Float64[np.ndarray, " M"]]:
        """Ends of the central intervals, T⁻¹ of the Gaussian's."""
        outside = 0.5 * (1 - coverage)
        low, high = self.density.quantile(outside), self.density.quantile(1 - outside)
        return _column(low), _column(high)


def _column(values: Float64[Tensor, "M 1"]) -> Float64[np.ndarray, " M"]:
    return values[:, 0].cpu().numpy()
