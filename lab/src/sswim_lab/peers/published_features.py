"""Bayesian linear regression on Fourier features, in the published parametrisation.

It is the form with precisions: weights w ~ N(0, α⁻¹I), noise N(0, β⁻¹), and given rows Φ, y

    A = αI + βΦᵀΦ,    w ~ N(m, A⁻¹),    m = βA⁻¹Φᵀy.

The rest of this package has the same regression in another form
(:mod:`sswim.members.linear_regression`), without the limits that the published parametrisation
puts on what few steps can learn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from sswim.base.cholesky import cholesky
from sswim.kernels.features import expected_features
from sswim.rows.rows import Measure

KernelName = Literal["matern32", "rbf"]


def positive(raw: Float64[Tensor, "*S"]) -> Float64[Tensor, "*S"]:
    """Return softplus(r)²; a gradient step of fixed size cannot change its order of magnitude."""
    return nn.functional.softplus(raw).square()


def inverse_positive(value: Float64[Tensor, "*S"]) -> Float64[Tensor, "*S"]:
    """Return r = √v + log(1 − e^{−√v}), for which softplus(r)² is v."""
    root = value.sqrt()
    return root + (-(-root).expm1()).log()


@dataclass(frozen=True)
class WeightPosterior:
    """The posterior of the weights given rows."""

    mean: Float64[Tensor, "F Q"]
    """m, one column for every output."""
    factor: Float64[Tensor, "F F"]
    """L with LLᵀ = A, which the outputs share."""
    noise: Float64[Tensor, ""]
    """β⁻¹"""

    def predict(
        self, features: Float64[Tensor, "N F"]
    ) -> tuple[Float64[Tensor, "N Q"], Float64[Tensor, " N"]]:
        """Return the mean φᵀm and the variance φᵀA⁻¹φ + β⁻¹ of observations."""
        whitened = torch.linalg.solve_triangular(self.factor, features.mT, upper=False)
        return features @ self.mean, whitened.square().sum(0) + self.noise


class SpectralGP(nn.Module):
    """A sparse spectrum GP whose kernel is a product of 1-D kernels.

    Its parameters are the length-scales and the precisions of the weights and of the noise.
    """

    unit_frequencies: Tensor

    def __init__(
        self,
        kernel: KernelName,
        n_frequencies: int,
        length_scales: Float64[Tensor, " D"],
        precisions: tuple[float, float],
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        unit = draw_frequencies(kernel, n_frequencies, len(length_scales), generator)
        self.register_buffer("unit_frequencies", unit)
        self.raw_length_scales = nn.Parameter(inverse_positive(length_scales))
        weight_precision, noise_precision = torch.tensor(precisions, dtype=torch.float64)
        self.raw_weight_precision = nn.Parameter(inverse_positive(weight_precision))
        self.raw_noise_precision = nn.Parameter(inverse_positive(noise_precision))

    def features(self, measure: Measure) -> Float64[Tensor, "N F"]:
        """Return the expected features M^{-1/2} exp(−½Ω²v) ⊙ [cos Ωm, sin Ωm]."""
        return expected_features(self.unit_frequencies / positive(self.raw_length_scales), measure)

    def condition(
        self, features: Float64[Tensor, "N F"], targets: Float64[Tensor, "N Q"]
    ) -> WeightPosterior:
        """Return the posterior of the weights given rows."""
        precision = positive(self.raw_noise_precision)  # β
        gram = precision * (features.mT @ features)
        identity = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        factor = cholesky(
            gram + positive(self.raw_weight_precision) * identity, name="matrix αI + βΦᵀΦ"
        )
        mean = torch.cholesky_solve(precision * (features.mT @ targets), factor)
        return WeightPosterior(mean, factor, 1 / precision)

    def negative_log_evidence(
        self, features: Float64[Tensor, "N F"], targets: Float64[Tensor, "N 1"]
    ) -> Float64[Tensor, ""]:
        """Return ½(β‖y − Φm‖² + α‖m‖² + log|A| − F log α − N log β + N log 2π)."""
        weights = self.condition(features, targets)
        alpha, beta = positive(self.raw_weight_precision), positive(self.raw_noise_precision)
        error = beta * (targets - features @ weights.mean).square().sum()
        size = alpha * weights.mean.square().sum()
        log_determinant = 2 * weights.factor.diagonal().log().sum()
        n_rows, n_features = features.shape
        volume = n_features * alpha.log() + n_rows * (beta.log() - math.log(2 * math.pi))
        return 0.5 * (error + size + log_determinant - volume)


class TwoSpectraGP(SpectralGP):
    """A GP with two sets of frequencies, whose means and widths are learnt.

    Its kernel is nonstationary: φ(x) = (4M)^{-1/2} [cos Ω₁x + cos Ω₂x, sin Ω₁x + sin Ω₂x]
    """

    other_unit_frequencies: Tensor

    def __init__(
        self,
        kernel: KernelName,
        n_frequencies: int,
        length_scales: Float64[Tensor, " D"],
        precisions: tuple[float, float],
        generator: torch.Generator,
    ) -> None:
        super().__init__(kernel, n_frequencies, length_scales, precisions, generator)
        other = draw_frequencies(kernel, n_frequencies, len(length_scales), generator)
        self.register_buffer("other_unit_frequencies", other)
        self.raw_other_length_scales = nn.Parameter(inverse_positive(length_scales))
        self.means = nn.Parameter(torch.zeros(2, len(length_scales), dtype=torch.float64))

    def features(self, measure: Measure) -> Float64[Tensor, "N F"]:
        """Return half the sum of the features of both sets."""
        first, second = self.means
        one = first + self.unit_frequencies / positive(self.raw_length_scales)
        other = second + self.other_unit_frequencies / positive(self.raw_other_length_scales)
        return 0.5 * (expected_features(one, measure) + expected_features(other, measure))


def draw_frequencies(
    kernel: KernelName, n_frequencies: int, n_inputs: int, generator: torch.Generator
) -> Float64[Tensor, "M D"]:
    """Draw independent coordinates, normal or Student-t with three degrees of freedom.

    The kernel is then a product of 1-D kernels, which for Matérn-3/2 is not the isotropic kernel.
    """
    shape = (n_frequencies, n_inputs)
    normal = torch.randn(*shape, generator=generator, dtype=torch.float64)
    if kernel == "rbf":
        return normal
    chi = torch.randn(3, *shape, generator=generator, dtype=torch.float64).square().sum(0)
    return normal * (3 / chi).sqrt()


def start_length_scales(inputs: Float64[Tensor, "N D"], spread: float) -> Float64[Tensor, " D"]:
    """Return ½·range·√(D/p) of every input; a constant input counts as having the range one."""
    width = inputs.amax(0) - inputs.amin(0)
    width = torch.where(width > 0, width, 1.0)
    return 0.5 * width * math.sqrt(inputs.shape[1] / spread)
