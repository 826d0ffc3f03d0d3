"""Output warps: monotone maps z = T(y) of the target, under which it is more nearly Gaussian.

The regression sees z. By the change of variables the density of y is that of z times T'(y): the log
evidence of y is that of z plus Σ log T'(y), and densities, quantiles and samples of y are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sswim.base.record import Record
from sswim.base.root_finding import safeguarded_newton

OutputWarpName = Literal["none", "sinh-arcsinh", "tanh"]

_LIMIT = 4.0
"""Of every parameter: many equal targets ask for a density without bound, and here it ends."""

_TAIL_LIMIT = math.log(4)
"""Of log d: the tails are powers of the target, and this keeps their moments within reason."""

_LARGEST_ANGLE = 200.0
"""Of a hyperbolic sine, that far values may become huge but never infinite."""

_ROWS = 8192
"""Inverted together."""


@dataclass(frozen=True)
class OutputMap(Record):
    """T, one for every target; this one is the identity.

    That of several members has their axes in front of its own; they see their own targets, or share
    them.
    """

    def forward(
        self, targets: Float[Tensor, "*#N T"]
    ) -> tuple[Float[Tensor, "*N T"], Float[Tensor, "*N T"]]:
        """T(y) and log T'(y)."""
        return targets, torch.zeros_like(targets)

    def inverse(self, warped: Float[Tensor, "*#N T"]) -> Float[Tensor, "*N T"]:
        """y of z = T(y)."""
        return warped


@dataclass(frozen=True)
class SinhArcsinhMap(OutputMap):
    """A composition of terms sinh(e + d·arcsinh(a + b·y)), each with an inverse in closed form.

    e makes one tail longer than the other and d > 0 both of them shorter or longer; a and b > 0
    say where, and on what scale.

    Beyond the targets it was learnt from, l ≤ y ≤ u, a map is continued by its tangents: powers
    and exponentials of what no target has shown would run away.
    """

    shift: Float[Tensor, "*B K T"]
    """a"""
    log_scale: Float[Tensor, "*B K T"]
    """log b"""
    skewness: Float[Tensor, "*B K T"]
    """e"""
    log_tail: Float[Tensor, "*B K T"]
    """log d"""
    low: Float[Tensor, "*B T"] | None = None
    """l; None, or −∞, for no tangent."""
    high: Float[Tensor, "*B T"] | None = None
    """u; None, or ∞, for no tangent."""

    def forward(
        self, targets: Float[Tensor, "*#N T"]
    ) -> tuple[Float[Tensor, "*N T"], Float[Tensor, "*N T"]]:
        """T(y) and log T'(y): T(t) + T'(t)(y − t) with t = min(max(y, l), u), and log T'(t)."""
        if self.low is None or self.high is None:
            return self._forward(targets)
        within = targets.clamp(self.low[..., None, :], self.high[..., None, :])  # t
        warped, log_slope = self._forward(within)
        return warped + _slope(log_slope) * (targets - within), log_slope

    def inverse(self, warped: Float[Tensor, "*#N T"]) -> Float[Tensor, "*N T"]:
        """y of z = T(y)."""
        if self.low is None or self.high is None:
            return self._inverse(warped)
        below, log_slope_below = self._edge(self.low)
        above, log_slope_above = self._edge(self.high)
        within = warped.clamp(below, above)
        beyond = (warped - below).clamp(max=0) / _slope(log_slope_below)
        beyond = beyond + (warped - above).clamp(min=0) / _slope(log_slope_above)
        return self._inverse(within) + beyond

    def _edge(
        self, edge: Float[Tensor, "*B T"]
    ) -> tuple[Float[Tensor, "*B 1 T"], Float[Tensor, "*B 1 T"]]:
        """T and log T' at an end of the range; an infinite one stays so, with any slope."""
        edge = edge[..., None, :]
        known = edge.isfinite()
        warped, log_slope = self._forward(torch.where(known, edge, 0.0))
        return torch.where(known, warped, edge), log_slope

    def _forward(
        self, targets: Float[Tensor, "*#N T"]
    ) -> tuple[Float[Tensor, "*N T"], Float[Tensor, "*N T"]]:
        """T(y) and log T'(y), without tangents.

        With v = a + b·y a term's log slope is log bd + log cosh(e + d·arcsinh v) − ½log(1 + v²).
        """
        warped, log_slope = targets, torch.zeros_like(targets)
        for shift, log_scale, skewness, log_tail in self._terms():
            affine = shift + log_scale.exp() * warped  # v
            angle = skewness + log_tail.exp() * affine.asinh()
            log_slope = log_slope + log_scale + log_tail + _log_cosh(angle)
            log_slope = log_slope - torch.hypot(affine, torch.ones_like(affine)).log()
            warped = _sinh(angle)
        return warped, log_slope

    def _inverse(self, warped: Float[Tensor, "*#N T"]) -> Float[Tensor, "*N T"]:
        for shift, log_scale, skewness, log_tail in reversed(self._terms()):
            affine = _sinh((warped.asinh() - skewness) * (-log_tail).exp())
            warped = (affine - shift) * (-log_scale).exp()
        return warped

    def _terms(self) -> list[tuple[Tensor, ...]]:
        """Every parameter of a term as (*B, 1, T), to meet the rows of every member."""
        parameters = (self.shift, self.log_scale, self.skewness, self.log_tail)
        return list(zip(*(tensor.split(1, dim=-2) for tensor in parameters), strict=True))


@dataclass(frozen=True)
class TanhMap(OutputMap):
    """T(y) = a + y + Σ_k (c_k/b_k)·tanh(b_k(y − m_k)) with b_k > 0 and c_k > −1/K.

    The slope 1 + Σ c_k sech²(·) is then positive everywhere, and one in the tails.
    """

    shift: Float[Tensor, "*B T"]
    """a"""
    location: Float[Tensor, "*B K T"]
    """m"""
    log_steepness: Float[Tensor, "*B K T"]
    """log b"""
    slope: Float[Tensor, "*B K T"]
    """c"""

    def forward(
        self, targets: Float[Tensor, "*#N T"]
    ) -> tuple[Float[Tensor, "*N T"], Float[Tensor, "*N T"]]:
        """T(y) and log T'(y)."""
        # As (*B, 1, K, T), to meet the rows of every member.
        location, slope = self.location[..., None, :, :], self.slope[..., None, :, :]
        steepness = self.log_steepness.exp()[..., None, :, :]
        step = (steepness * (targets[..., None, :] - location)).tanh()
        warped = self.shift[..., None, :] + targets + (slope / steepness * step).sum(-2)
        return warped, (slope * (1 - step.square())).sum(-2).log1p()

    def inverse(self, warped: Float[Tensor, "*#N T"]) -> Float[Tensor, "*N T"]:
        """y of z = T(y), by Newton's steps within a bracket that |tanh| < 1 gives."""
        # Some rows at a time: every term of every row is looked at.
        size = max(1, _ROWS // max(1, math.prod(warped.shape[:-2])))
        return torch.cat([self._inverse(rows) for rows in warped.split(size, dim=-2)], dim=-2)

    def _inverse(self, warped: Float[Tensor, "*#N T"]) -> Float[Tensor, "*N T"]:
        reach = (self.slope.abs() * (-self.log_steepness).exp()).sum(-2)[..., None, :]
        targets = warped - self.shift[..., None, :]
        low, high = targets - reach, targets + reach

        def error_and_step(targets: Tensor) -> tuple[Tensor, Tensor]:
            value, log_slope = self.forward(targets)
            error = value - warped
            return error, error * (-log_slope).exp()

        return safeguarded_newton(
            error_and_step, targets, low, high, lambda targets: 1e-15 * (1 + targets.abs())
        )


class OutputWarp(nn.Module):
    """The parameters of a map, for every target; zero is the identity.

    Each has a standard normal prior, which keeps the map there unless the data ask, and a limit.
    The range of the targets says where tangents continue a sinh-arcsinh map; it is infinite until
    it is set. (The tails of the others are linear as they are.)
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
        everything = torch.full((*batch, n_targets), torch.inf, dtype=torch.float64)
        self.register_buffer("low", -everything)
        self.register_buffer("high", everything)

    @torch.no_grad()
    def set_range(self, low: Float64[Tensor, "*#B T"], high: Float64[Tensor, "*#B T"]) -> None:
        """Say where the targets are, of every member or of all."""
        self.low.copy_(low)
        self.high.copy_(high)

    def condition(self) -> tuple[OutputMap, Float64[Tensor, "*B"]]:
        """The map, and the negative log prior of its parameters."""
        prior = 0.5 * (self.coordinates.square() + math.log(2 * math.pi)).sum((-2, -1))
        bounded = _within(_LIMIT, self.coordinates)
        if self.kind == "sinh-arcsinh":
            shift, log_scale, skewness, log_tail = bounded.chunk(4, dim=-2)
            parameters = (shift, log_scale, skewness, _within(_TAIL_LIMIT, log_tail))
            return SinhArcsinhMap(*parameters, self.low, self.high), prior
        location, log_steepness, log_slope = bounded[..., 1:, :].chunk(3, dim=-2)
        # At the start the terms differ by where they are, over the bulk of a standardised target.
        numbers = torch.arange(self.n_terms, dtype=torch.float64, device=location.device)
        quantiles = torch.special.ndtri((numbers + 0.5) / self.n_terms)[:, None]
        slope = log_slope.expm1() / self.n_terms
        return TanhMap(bounded[..., 0, :], location + quantiles, log_steepness, slope), prior


def _within(limit: float, values: Tensor) -> Tensor:
    """Values as they are near zero, and never beyond a limit."""
    return limit * (values / limit).tanh()


def _sinh(angle: Tensor) -> Tensor:
    return angle.clamp(-_LARGEST_ANGLE, _LARGEST_ANGLE).sinh()


def _slope(log_slope: Tensor) -> Tensor:
    """T'(y), finite like all else."""
    return log_slope.clamp(-_LARGEST_ANGLE, _LARGEST_ANGLE).exp()


def _log_cosh(angle: Tensor) -> Tensor:
    """log cosh t = |t| + log(1 + e^{−2|t|}) − log 2, which does not overflow."""
    size = angle.abs()
    return size + (-2 * size).exp().log1p() - math.log(2)
