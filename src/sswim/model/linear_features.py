"""Linear features of the raw inputs, beside the Fourier features of the top level.

A stationary kernel has to build a trend of many waves; two further terms of the kernel,
a²·x̃ᵀx̃'/D + b², have it at once. x̃ are the inputs kept within the range of the rows: beyond it a
trend is not followed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sswim.base.record import Record
from sswim.model.features import expected_features, expected_quadratic, feature_slopes
from sswim.rows.measure import Measure, full_covariance


@dataclass(frozen=True)
class LinearTerms(Record):
    """All that rows need of the linear features."""

    amplitudes: Float[Tensor, "*B 2"]
    """a and b"""
    low: Float[Tensor, "*B D"]
    high: Float[Tensor, "*B D"]
    """The range of the rows."""


def linear_features(terms: LinearTerms, inputs: Measure) -> Float[Tensor, "*B N L"]:
    """a·x̃/√D and b, the L = D + 1 linear features; of an uncertain input those of its mean."""
    mean = inputs.mean
    amplitudes = terms.amplitudes.to(mean.dtype)
    low, high = (_row(each.detach(), mean) for each in (terms.low, terms.high))
    slopes = mean.shape[-1] ** -0.5 * amplitudes[..., None, :1] * mean.clamp(low, high)
    return torch.cat((slopes, amplitudes[..., None, 1:].expand(*slopes.shape[:-1], 1)), dim=-1)


def expected_joint_quadratic(
    frequencies: Float[Tensor, "*B M D"],
    terms: LinearTerms,
    top: Measure,
    inputs: Measure,
    cross: Float[Tensor, "*#B N D D"],
    form: Float[Tensor, "*B J J"],
) -> Float[Tensor, "*B N"]:
    """E[φᵀ Q φ] over the raw input's uncertainty, φ = [f, l] the Fourier and linear features.

        E[fᵀQf] + 2·(f̄ᵀQl̄ + tr QᵀCov(f, l)) + l̄ᵀQl̄ + (a²/D)·tr QP

    with the blocks of Q that belong to each term and the raw input's covariance P. By Stein's
    lemma Cov(f, x) = E[∂f/∂u]·cov(u, x) for a Gaussian u. An input out of range counts as
    constant, one within it as if it had no end.

    Args:
        frequencies: Ω.
        terms: Of the linear features.
        top: Of u, what the Fourier features see.
        inputs: Of x, raw.
        cross: cov(u, x).
        form: Q, symmetric.
    """
    assert inputs.input_variance is not None
    mean, n_inputs = inputs.mean, inputs.mean.shape[-1]
    low, high = (_row(each, mean) for each in (terms.low, terms.high))
    slope = n_inputs**-0.5 * terms.amplitudes[..., None, :1]  # a/√D
    slope = torch.where((low <= mean) & (mean <= high) & (low < high), slope, 0.0)  # ∂l/∂x
    fourier, linear = expected_features(frequencies, top), linear_features(terms, inputs)
    n_fourier = fourier.shape[-1]
    mixed = form[..., :n_fourier, n_fourier:]
    of_linear = form[..., n_fourier:, n_fourier:]
    of_inputs = of_linear[..., None, :n_inputs, :n_inputs]  # the same for every row
    product = ((fourier @ mixed + 0.5 * linear @ of_linear) * linear).sum(-1)
    turned = feature_slopes(frequencies, fourier, mixed[..., :n_inputs])  # ∂(Qᵀf̄)/∂u
    shared = ((turned * cross.mT).sum(-1) * slope).sum(-1)
    covariance = full_covariance(mean, inputs.input_variance)
    spread = (of_inputs * covariance * slope[..., :, None] * slope[..., None, :]).sum((-2, -1))
    quadratic = expected_quadratic(frequencies, top, form[..., :n_fourier, :n_fourier])
    return quadratic + 2 * (product + shared) + spread


def _row(values: Float[Tensor, "*B D"], like: Tensor) -> Float[Tensor, "*B 1 D"]:
    """Of every member, to be held against its rows."""
    return values[..., None, :].to(like.dtype)


class Trend(nn.Module):
    """The parameters of the linear features."""

    low: Tensor
    high: Tensor

    def __init__(self, n_inputs: int, batch: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.log_linear = nn.Parameter(torch.zeros(*batch, 2, dtype=torch.float64))
        self.register_buffer("low", torch.zeros(*batch, n_inputs, dtype=torch.float64))
        self.register_buffer("high", torch.zeros(*batch, n_inputs, dtype=torch.float64))

    @torch.no_grad()
    def start(self, sample: Float64[Tensor, "S D"]) -> None:
        """Learn the range from a sample of the inputs, of one member."""
        self.low.copy_(sample.amin(0))
        self.high.copy_(sample.amax(0))

    def condition(self) -> LinearTerms:
        """The terms that rows need."""
        return LinearTerms(self.log_linear.exp(), self.low, self.high)
