"""Output warps: monotone maps z = T(y) that make the target more nearly Gaussian.

The regression models z. By the change of variables p(y) = p(z)·T'(y), the log evidence of y is the
log evidence of z plus Σ log T'(y), and densities, quantiles and samples of y are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sswim.base.numerics import safeguarded_newton
from sswim.base.record import Record

OutputWarpName = Literal["none", "sinh-arcsinh", "tanh"]

_LIMIT = 4.0
"""Bound on every parameter. Without it many equal targets would make the density unbounded."""

_TAIL_LIMIT = math.log(4)
"""Bound on log d: the tails are powers of the target, and this keeps their moments moderate."""

_LARGEST_ANGLE = 200.0
"""Largest argument of a hyperbolic sine, so that far values become huge but never infinite."""

_ROWS = 8192
"""Number of rows that are inverted together."""


@dataclass(frozen=True)
class OutputMap(Record):
    """The map T of every target; in this base class, the identity.

    The maps of a batch have the axes of its members in front. The members may share targets, or
    each have its own.
    """

    def forward(
        self, targets: Float[Tensor, "*#N T"]
    ) -> tuple[Float[Tensor, "*N T"], Float[Tensor, "*N T"]]:
        """Return T(y) and log T'(y)."""
        return targets, torch.zeros_like(targets)

    def inverse(self, warped: Float[Tensor, "*#N T"]) -> Float[Tensor, "*N T"]:
        """Return y, given z = T(y)."""
        return warped


@dataclass(frozen=True)
class SinhArcsinhMap(OutputMap):
    """A composition of terms sinh(e + d·arcsinh(a + b·y)), each with a closed-form inverse.

    e makes one tail longer than the other, and d > 0 makes both longer or shorter; a and b > 0 set
    their location and scale.

    Outside the range l ≤ y ≤ u of the targets that it was learnt from, a map is continued by its
    tangents, because powers and exponentials would grow too fast there.
    """

    shift: Float[Tensor, "*B K T"]
    """a, the shifts."""
    log_scale: Float[Tensor, "*B K T"]
    """log b, the log scales."""
    skewness: Float[Tensor, "*B K T"]
    """e, the skewness of the tails."""
    log_tail: Float[Tensor, "*B K T"]
    """log d, where d is the power of the tails."""
    low: Float[Tensor, "*B T"]
    """l, the lower end of the targets; −∞ for no tangent."""
    high: Float[Tensor, "*B T"]
    """u, the upper end of the targets; ∞ for no tangent."""

    def forward(
        self, targets: Float[Tensor, "*#N T"]
    ) -> tuple[Float[Tensor, "*N T"], Float[Tensor, "*N T"]]:
        """Return T(t) + T'(t)(y − t) and log T'(t), where t = min(max(y, l), u)."""
        within = targets.clamp(self.low[..., None, :], self.high[..., None, :])  # t
        warped, log_slope = self._forward(within)
        return warped + _slope(log_slope) * (targets - within), log_slope

    def inverse(self, warped: Float[Tensor, "*#N T"]) -> Float[Tensor, "*N T"]:
        """Return y, given z = T(y)."""
        ends = torch.stack((self.low, self.high), dim=-2)
        finite = ends.isfinite()
        warped_ends, log_slopes = self._forward(torch.where(finite, ends, 0.0))
        warped_ends = torch.where(finite, warped_ends, ends)  # an infinite end stays infinite
        low, high = warped_ends.split(1, dim=-2)
        low_slope, high_slope = _slope(log_slopes).split(1, dim=-2)
        within = warped.clamp(low, high)
        below, above = (warped - low).clamp(max=0), (warped - high).clamp(min=0)
        return self._inverse(within) + below / low_slope + above / high_slope

    def _forward(
        self, targets: Float[Tensor, "*#N T"]
    ) -> tuple[Float[Tensor, "*N T"], Float[Tensor, "*N T"]]:
        """Return T(y) and log T'(y) without tangents.

        A term with v = a + b·y has the log slope log bd + log cosh(e + d·arcsinh v) − ½log(1 + v²).
        """
        warped, log_slope = targets, torch.zeros_like(targets)
        one = torch.ones_like(targets)
        for shift, log_scale, skewness, log_tail in self._terms():
            affine = shift + log_scale.exp() * warped  # v
            angle = skewness + log_tail.exp() * affine.asinh()
            log_slope = log_slope + (log_scale + log_tail) + _log_cosh(angle)
            log_slope = log_slope - torch.hypot(affine, one).log()
            warped = _sinh(angle)
        return warped, log_slope

    def _inverse(self, warped: Float[Tensor, "*#N T"]) -> Float[Tensor, "*N T"]:
        """Return y, given z = T(y), without tangents."""
        for shift, log_scale, skewness, log_tail in reversed(self._terms()):
            affine = _sinh((warped.asinh() - skewness) * (-log_tail).exp())
            warped = (affine - shift) * (-log_scale).exp()
        return warped

    def _terms(self) -> list[tuple[Tensor, ...]]:
        """Return the parameters of each term, with shapes (*B, 1, T) that broadcast over rows."""
        parameters = (self.shift, self.log_scale, self.skewness, self.log_tail)
        return list(zip(*(tensor[..., None, :].unbind(-3) for tensor in parameters), strict=True))


@dataclass(frozen=True)
class TanhMap(OutputMap):
    """A sum of steps, T(y) = a + y + Σ_k (c_k/b_k)·tanh(b_k(y − m_k)), b_k > 0 and c_k > −1/K.

    The slope 1 + Σ c_k sech²(·) is positive everywhere, and one in the tails.
    """

    shift: Float[Tensor, "*B T"]
    """a, the shift of the map."""
    location: Float[Tensor, "*B K T"]
    """m, the locations of the steps."""
    log_steepness: Float[Tensor, "*B K T"]
    """log b, the log steepness of the steps."""
    slope: Float[Tensor, "*B K T"]
    """c, the slopes of the steps."""

    def forward(
        self, targets: Float[Tensor, "*#N T"]
    ) -> tuple[Float[Tensor, "*N T"], Float[Tensor, "*N T"]]:
        """Return T(y) and log T'(y)."""
        # Shapes (*B, 1, K, T), which broadcast over rows.
        location, slope = self.location[..., None, :, :], self.slope[..., None, :, :]
        steepness = self.log_steepness.exp()[..., None, :, :]
        step = (steepness * (targets[..., None, :] - location)).tanh()
        warped = self.shift[..., None, :] + targets + (slope / steepness * step).sum(-2)
        return warped, (slope * (1 - step.square())).sum(-2).log1p()

    def inverse(self, warped: Float[Tensor, "*#N T"]) -> Float[Tensor, "*N T"]:
        """Return y, given z = T(y), by Newton steps in brackets that follow from |tanh| < 1.

        It is differentiable in z, and not in the parameters of the map.
        """
        # A limited number of rows at a time: each step takes memory for every term of every row.
        size = max(1, _ROWS // max(1, math.prod(warped.shape[:-2])))
        with torch.no_grad():
            parts = [self._inverse(rows) for rows in warped.split(size, dim=-2)]
            targets = torch.cat(parts, dim=-2)
        if not (torch.is_grad_enabled() and warped.requires_grad):
            return targets
        return _Inverse.apply(warped, targets, self.forward(targets)[1])

    def _inverse(self, warped: Float[Tensor, "*#N T"]) -> Float[Tensor, "*N T"]:
        """Return y of a limited number of rows, given z = T(y)."""
        half_width = (self.slope.abs() * (-self.log_steepness).exp()).sum(-2)[..., None, :]
        targets = warped - self.shift[..., None, :]
        low, high = targets - half_width, targets + half_width

        def error_and_step(targets: Tensor) -> tuple[Tensor, Tensor]:
            value, log_slope = self.forward(targets)
            error = value - warped
            return error, error * (-log_slope).exp()

        return safeguarded_newton(
            error_and_step, targets, low, high, lambda targets: 1e-15 * (1 + targets.abs())
        )


class _Inverse(torch.autograd.Function):
    """y as a function of z = T(y) with the slope 1/T'(y), however y was found."""

    @staticmethod
    def forward(ctx: Any, warped: Tensor, targets: Tensor, log_slope: Tensor) -> Tensor:
        ctx.shape = warped.shape
        ctx.save_for_backward(log_slope)
        return targets.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_targets: Tensor) -> tuple[Tensor, None, None]:
        (log_slope,) = ctx.saved_tensors
        return (of_targets * (-log_slope).exp()).sum_to_size(ctx.shape), None, None


class OutputWarp(nn.Module):
    """The parameters of an output map for every target; at zero the map is the identity.

    Each parameter has a standard normal prior, which keeps the map near the identity unless the
    data show otherwise, and a bound. A sinh-arcsinh map is continued by its tangents outside the
    range of the targets; the range is infinite until it is set. (Tanh maps have linear tails
    anyway.)
    """

    low: Tensor
    high: Tensor

    def __init__(
        self, kind: OutputWarpName, n_terms: int, n_targets: int, batch: tuple[int, ...] = ()
    ) -> None:
        super().__init__()
        self.kind, self.n_terms = kind, n_terms
        n_coordinates = 4 * n_terms if kind == "sinh-arcsinh" else 3 * n_terms + 1
        self.coordinates = nn.Parameter(
            torch.zeros(*batch, n_coordinates, n_targets, dtype=torch.float64)
        )
        infinity = torch.full((*batch, n_targets), torch.inf, dtype=torch.float64)
        self.register_buffer("low", -infinity)
        self.register_buffer("high", infinity)

    @torch.no_grad()
    def set_range(self, low: Float64[Tensor, "*#B T"], high: Float64[Tensor, "*#B T"]) -> None:
        """Set the range of the targets, for each member or for all."""
        self.low.copy_(low)
        self.high.copy_(high)

    def factors(self) -> tuple[OutputMap, Float64[Tensor, "*B"]]:
        """Return the map, and the negative log prior of its parameters."""
        prior = 0.5 * (self.coordinates.square() + math.log(2 * math.pi)).sum((-2, -1))
        bounded = _bounded(_LIMIT, self.coordinates)
        if self.kind == "sinh-arcsinh":
            shift, log_scale, skewness, log_tail = bounded.chunk(4, dim=-2)
            parameters = (shift, log_scale, skewness, _bounded(_TAIL_LIMIT, log_tail))
            return SinhArcsinhMap(*parameters, self.low, self.high), prior
        location, log_steepness, log_slope = bounded[..., 1:, :].chunk(3, dim=-2)
        # At the start the steps are spread over the bulk of a standardised target.
        numbers = torch.arange(self.n_terms, dtype=torch.float64, device=location.device)
        quantiles = torch.special.ndtri((numbers + 0.5) / self.n_terms)[:, None]
        slope = log_slope.expm1() / self.n_terms
        return TanhMap(bounded[..., 0, :], location + quantiles, log_steepness, slope), prior


def _bounded(limit: float, values: Tensor) -> Tensor:
    """Bound values smoothly: nearly unchanged near zero, and never beyond the limit."""
    return limit * (values / limit).tanh()


def _sinh(angle: Tensor) -> Tensor:
    """Return sinh t, kept finite."""
    return angle.clamp(-_LARGEST_ANGLE, _LARGEST_ANGLE).sinh()


def _slope(log_slope: Tensor) -> Tensor:
    """Return T'(y), given its logarithm; kept finite."""
    return log_slope.clamp(-_LARGEST_ANGLE, _LARGEST_ANGLE).exp()


def _log_cosh(angle: Tensor) -> Tensor:
    """Return log cosh t = |t| + log(1 + e^{−2|t|}) − log 2, which does not overflow."""
    size = angle.abs()
    return size + (-2 * size).exp().log1p() - math.log(2)
