"""Rows as the regression sees them: features of warped inputs, warped targets and noise."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sswim.base.record import Record
from sswim.model.features import expected_features, expected_quadratic
from sswim.model.linear_features import expected_joint_quadratic, linear_features
from sswim.model.noise_field import log_noise_ratio
from sswim.model.sswim import Factors
from sswim.model.warp import warp
from sswim.rows.measure import Measure, full_covariance
from sswim.rows.rows import Rows


@dataclass(frozen=True)
class Observations(Record):
    """Rows as the regression sees them."""

    features: Float[Tensor, "*B N F"]
    """Φ"""
    targets: Float64[Tensor, "*#B N T"]
    """z = T(y)"""
    log_slope: Float64[Tensor, "*#B N T"]
    """log T'(y), which takes a density of z to one of y."""
    log_precision: Float64[Tensor, "*#B N T"] | None = None
    """log w, where the noise depends on the input."""
    multiplicity: Float64[Tensor, "*#B N"] | None = None
    """c, how many times each row counts; None for once."""
    temper: Float64[Tensor, "*#B T"] | None = None
    """τ, how far the weights of rows follow the precision; None for one, all the way."""

    def log_weight(self) -> Float64[Tensor, "*B N T"] | None:
        """τ·log w, of a row that counts once; None for ones."""
        if self.log_precision is None or self.temper is None:
            return self.log_precision
        return self.temper[..., None, :] * self.log_precision

    def weight(self) -> Float64[Tensor, "*B N G"] | None:
        """c·w^τ, with one column for all targets (G = 1) or one for each; None for ones."""
        multiplicity = None if self.multiplicity is None else self.multiplicity[..., None]
        log_weight = self.log_weight()
        if log_weight is None:
            return multiplicity
        weight = log_weight.exp()
        return weight if multiplicity is None else multiplicity * weight


def warped(factors: Factors, inputs: Measure) -> list[Measure]:
    """The measures after each warp in turn, beginning with the inputs themselves.

    A model of scored inputs begins with these, and all measures are in units of the scores.
    """
    n_inputs = factors.frequencies.shape[-1]
    if inputs.mean.shape[-1] != n_inputs:
        raise ValueError(
            f"Rows must have the model's {n_inputs} inputs. Got {inputs.mean.shape[-1]}."
        )
    measures = [inputs if factors.normal_scores is None else factors.normal_scores.forward(inputs)]
    for factors_of_warp in factors.warps:
        measures.append(warp(factors_of_warp.to(dtype=inputs.mean.dtype), measures[-1]))
    return measures


def row_features(factors: Factors, inputs: Measure) -> Float[Tensor, "*B N F"]:
    """Expected top-level features of rows, in the precision of the inputs."""
    return top_features(factors, inputs, warped(factors, inputs)[-1])


def top_features(factors: Factors, inputs: Measure, top: Measure) -> Float[Tensor, "*B N F"]:
    """The same, given the last of the warped measures: Fourier features, and linear ones if any."""
    features = expected_features(factors.frequencies.to(top.mean.dtype), top)
    if factors.trend is None:
        return features
    return torch.cat((features, linear_features(factors.trend, inputs)), dim=-1)


def expected_top_quadratic(
    factors: Factors, inputs: Measure, top: Measure, form: Float[Tensor, "*B F F"]
) -> Float[Tensor, "*B N"]:
    """E[φᵀQφ] of all top-level features over the raw input's uncertainty, for a symmetric Q."""
    if factors.trend is None:
        return expected_quadratic(factors.frequencies, top, form)
    assert inputs.input_variance is not None
    covariance = full_covariance(inputs.mean, inputs.input_variance)
    if factors.normal_scores is not None:
        covariance = (
            factors.normal_scores.slopes(inputs.mean)[..., None] * covariance
        )  # cov(u, x) = SP
    return expected_joint_quadratic(
        factors.frequencies, factors.trend, top, inputs, covariance, form
    )


def log_precision(factors: Factors, inputs: Measure) -> Float64[Tensor, "*B N T"] | None:
    """log w = −η(x), for noise of variance σ²/w; None if it is constant."""
    return None if factors.noise is None else -log_noise_ratio(factors.noise, inputs)


def observe(factors: Factors, rows: Rows) -> Observations:
    """Rows as the regression sees them: warped inputs' features, warped targets, noise."""
    targets, log_slope = factors.output.forward(rows.targets)
    return Observations(
        features=row_features(factors, rows.inputs),
        targets=targets,
        log_slope=log_slope,
        log_precision=log_precision(factors, rows.inputs),
        multiplicity=rows.weight,
        temper=None if factors.noise is None else factors.noise.temper,
    )
