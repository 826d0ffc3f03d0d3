"""Rows as the regression uses them: features of warped inputs, warped targets and noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sswim.base.record import Record
from sswim.kernels.features import expected_features
from sswim.members.model import Factors
from sswim.rows.rows import Measure, Rows, marginal_variance
from sswim.warps.noise_field import log_noise_ratio
from sswim.warps.warp import warp


@dataclass(frozen=True)
class Observations(Record):
    """Rows as the regression uses them."""

    features: Float[Tensor, "*B N F"]
    """Φ, the features."""
    targets: Float64[Tensor, "*#B N T"]
    """z = T(y), the warped targets."""
    log_slope: Float64[Tensor, "*#B N T"]
    """log T'(y), the log slope of the output warp, which turns a density of z into one of y."""
    log_precision: Float64[Tensor, "*#B N T"] | None = None
    """log w, the log precision of input-dependent noise σ²/w; None for constant noise."""
    multiplicity: Float64[Tensor, "*#B N"] | None = None
    """c, the number of times each row counts; None for once."""
    temper: Float64[Tensor, "*#B T"] | None = None
    """τ, the exponent of w in the weights of rows; None for one."""

    def log_weight(self) -> Float64[Tensor, "*B N T"] | None:
        """Return τ·log w, the log weight of a row that counts once; None if all weights are one."""
        if self.log_precision is None or self.temper is None:
            return self.log_precision
        return self.temper[..., None, :] * self.log_precision

    def weight(self) -> Float64[Tensor, "*B N G"] | None:
        """Return the weights c·w^τ of rows; None if all are one.

        There is one column for all targets (G = 1), or one column for each.
        """
        multiplicity = None if self.multiplicity is None else self.multiplicity[..., None]
        log_weight = self.log_weight()
        if log_weight is None:
            return multiplicity
        weight = log_weight.exp()
        return weight if multiplicity is None else multiplicity * weight


def warped_measures(factors: Factors, inputs: Measure) -> list[Measure]:
    """Return the measure of the inputs, and the measures after each warp in turn.

    For a model that uses normal scores, the first measure is that of the normal scores, and all
    measures are in their units.
    """
    n_inputs = factors.n_inputs
    if inputs.mean.shape[-1] != n_inputs:
        raise ValueError(
            f"Rows must have the model's {n_inputs} inputs. Got {inputs.mean.shape[-1]}."
        )
    measures = [inputs if factors.normal_scores is None else factors.normal_scores.forward(inputs)]
    for warp_factors in factors.warps:
        measures.append(warp(warp_factors.to(dtype=inputs.mean.dtype), measures[-1]))
    return measures


def kernel_points(factors: Factors, inputs: Measure) -> Measure:
    """Return the warped inputs in units of the exact kernel's length-scales, in float64.

    Their variance is that of uncertain raw inputs, passed on by the warps. The variance of the
    warps is left out: the kernel of their means predicts better than its expectation.
    """
    assert factors.length_scales is not None
    top = warped_measures(factors, inputs)[-1]
    points = top.mean.to(torch.float64) / factors.length_scales
    variance = marginal_variance(replace(top, variance=None))
    if variance is None:
        return Measure(points)
    return Measure(points, variance.to(torch.float64) / factors.length_scales.square())


def row_features(factors: Factors, inputs: Measure) -> Float[Tensor, "*B N F"]:
    """Return the expected top-level features of rows, in the precision of the inputs."""
    top = warped_measures(factors, inputs)[-1]
    return expected_features(factors.frequencies.to(top.mean.dtype), top)


def log_precision(factors: Factors, inputs: Measure) -> Float64[Tensor, "*B N T"] | None:
    """Return log w = −η(x), where the noise has variance σ²/w; None if it is constant."""
    return None if factors.noise is None else -log_noise_ratio(factors.noise, inputs)


def observe(factors: Factors, rows: Rows) -> Observations:
    """Compute the features, warped targets and noise of rows."""
    targets, log_slope = factors.output.forward(rows.targets)
    return Observations(
        features=row_features(factors, rows.inputs),
        targets=targets,
        log_slope=log_slope,
        log_precision=log_precision(factors, rows.inputs),
        multiplicity=rows.weight,
        temper=None if factors.noise is None else factors.noise.temper,
    )
