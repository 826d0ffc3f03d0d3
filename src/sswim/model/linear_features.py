"""Linear features of the raw inputs, beside the Fourier features of the top level.

A stationary kernel needs many frequencies to represent a trend. Two further terms of the kernel,
a²·x̃ᵀx̃'/D + b², represent it directly. x̃ is the input clamped to the range of the rows, so a trend
is not extrapolated beyond it.
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
class TrendFactors(Record):
    """The tensors that linear features are computed from."""

    amplitudes: Float[Tensor, "*B 2"]
    """a and b, the amplitudes of the slope and of the constant."""
    low: Float[Tensor, "*B D"]
    """Lower ends of the inputs' range."""
    high: Float[Tensor, "*B D"]
    """Upper ends of the inputs' range."""


def linear_features(factors: TrendFactors, inputs: Measure) -> Float[Tensor, "*B N L"]:
    """Return the L = D + 1 linear features a·x̃/√D and b; for an uncertain input, at its mean."""
    mean = inputs.mean
    amplitudes = factors.amplitudes.to(mean.dtype)
    low, high = (_add_row_axis(end.detach(), mean) for end in (factors.low, factors.high))
    slopes = mean.shape[-1] ** -0.5 * amplitudes[..., None, :1] * mean.clamp(low, high)
    return torch.cat((slopes, amplitudes[..., None, 1:].expand(*slopes.shape[:-1], 1)), dim=-1)


def expected_joint_quadratic(
    frequencies: Float[Tensor, "*B M D"],
    factors: TrendFactors,
    top: Measure,
    inputs: Measure,
    cross: Float[Tensor, "*#B N D D"],
    form: Float[Tensor, "*B J J"],
) -> Float[Tensor, "*B N"]:
    """Return E[φᵀQφ] over the raw input's uncertainty, for Fourier and linear features φ = [f, l].

        E[fᵀQf] + 2·(f̄ᵀQl̄ + tr QᵀCov(f, l)) + l̄ᵀQl̄ + (a²/D)·tr QP

    Every term has its block of Q, and P is the covariance of the raw input. By Stein's lemma
    Cov(f, x) = E[∂f/∂u]·cov(u, x) for a Gaussian u. An input outside the range counts as constant,
    and an input inside it as if the range had no ends.

    Args:
        frequencies: Ω, the frequencies of the Fourier features.
        factors: Amplitudes and range of the linear features.
        top: Measure of u, the input of the Fourier features.
        inputs: Measure of x, the raw input.
        cross: cov(u, x), the covariance between the two.
        form: Q, a symmetric matrix.
    """
    assert inputs.input_variance is not None
    mean, n_inputs = inputs.mean, inputs.mean.shape[-1]
    low, high = (_add_row_axis(end, mean) for end in (factors.low, factors.high))
    slope = n_inputs**-0.5 * factors.amplitudes[..., None, :1]  # a/√D
    slope = torch.where((low <= mean) & (mean <= high) & (low < high), slope, 0.0)  # ∂l/∂x
    fourier, linear = expected_features(frequencies, top), linear_features(factors, inputs)  # f̄, l̄
    n_fourier = fourier.shape[-1]
    mixed_block = form[..., :n_fourier, n_fourier:]
    linear_block = form[..., n_fourier:, n_fourier:]
    input_block = linear_block[..., None, :n_inputs, :n_inputs]  # the same for every row
    product = ((fourier @ mixed_block + 0.5 * linear @ linear_block) * linear).sum(-1)
    gradient = feature_slopes(frequencies, fourier, mixed_block[..., :n_inputs])  # ∂(Qᵀf̄)/∂u
    mixed = ((gradient * cross.mT).sum(-1) * slope).sum(-1)  # tr QᵀCov(f, l)
    covariance = full_covariance(mean, inputs.input_variance)  # P
    spread = (input_block * covariance * slope[..., :, None] * slope[..., None, :]).sum((-2, -1))
    quadratic = expected_quadratic(frequencies, top, form[..., :n_fourier, :n_fourier])
    return quadratic + 2 * (product + mixed) + spread


def _add_row_axis(values: Float[Tensor, "*B D"], like: Tensor) -> Float[Tensor, "*B 1 D"]:
    """Return every member's values in the precision of its rows, with an axis for these."""
    return values[..., None, :].to(like.dtype)


class Trend(nn.Module):
    """The parameters of the linear features, log a and log b, and the range of the inputs."""

    low: Tensor
    high: Tensor

    def __init__(self, n_inputs: int, batch: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.log_linear = nn.Parameter(torch.zeros(*batch, 2, dtype=torch.float64))
        self.register_buffer("low", torch.zeros(*batch, n_inputs, dtype=torch.float64))
        self.register_buffer("high", torch.zeros(*batch, n_inputs, dtype=torch.float64))

    @torch.no_grad()
    def start(self, sample: Float64[Tensor, "S D"]) -> None:
        """Set the range of a single member from a sample of the inputs."""
        self.low.copy_(sample.amin(0))
        self.high.copy_(sample.amax(0))

    def condition(self) -> TrendFactors:
        """Return the tensors that linear features are computed from."""
        return TrendFactors(self.log_linear.exp(), self.low, self.high)
