"""Neighbourhoods: the neighbours of points, and the density of a row given its neighbours.

With few inputs, half of the neighbours of a point are the nearest of all rows, and half the nearest
of one row in 64. A map or a series may have gaps: in a gap the nearest of all rows lie together at
one edge of it; those of a thinned set lie on all sides. With more inputs all are the nearest rows.

A row x and its m neighbours N have targets z and the covariance s²K, with noise on the diagonal:

    K = [ K_N  k ]        K_N = LLᵀ,   p = (−K_N⁻¹k, 1)/l,   l² = κ − kᵀK_N⁻¹k.
        [ kᵀ   κ ]

All that the density of x given N needs are six numbers,

    log l,   a = pᵀz,   o = pᵀ1,   zᵀK_N⁻¹z,   zᵀK_N⁻¹1,   1ᵀK_N⁻¹1.

With α = K_N⁻¹z and β = K_N⁻¹1 (and zero at x), their differentials are

    d log l = ½pᵀdK p,   da = −pᵀdK α − ½a·pᵀdK p,   do = −pᵀdK β − ½o·pᵀdK p,
    d zᵀK_N⁻¹z = −αᵀdK α,   d zᵀK_N⁻¹1 = −αᵀdK β,   d 1ᵀK_N⁻¹1 = −βᵀdK β,

so the gradient of any function of them with respect to K is VCVᵀ, with V = (p, α, β) and a 3 × 3
matrix C. No inverse is formed.

The targets of a neighbourhood have a constant mean b, which is estimated, and an amplitude s² of
its own with the inverse-gamma prior of ν degrees of freedom around the global s²:

    b = zᵀK_N⁻¹1 / 1ᵀK_N⁻¹1,    q = (z − b)ᵀK_N⁻¹(z − b),    ŝ² = (νs² + q)/(ν + m − 1).

Given its neighbours, z(x) is Student-t with ν + m − 1 degrees of freedom, and in units of l it
deviates from its mean by a − b·o, with the squared scale ŝ²(1 + o²/1ᵀK_N⁻¹1). In predictions, with
the kriging weights w = K_N⁻¹k + β(1 − 1ᵀK_N⁻¹k)/1ᵀK_N⁻¹1, which add up to one,

    mean wᵀz,    latent variance ŝ²(1 − kᵀK_N⁻¹k + (1 − 1ᵀK_N⁻¹k)²/1ᵀK_N⁻¹1).

The amplitude ŝ² is then that of the first few neighbours. Their factor and their whitened targets
are the leading parts of those of all neighbours, so it costs nothing more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor
from torch.autograd.function import once_differentiable

from sswim.base.cholesky import cholesky
from sswim.base.numerics import student_t_log_density
from sswim.base.record import Record, map_chunks, rows_at_once
from sswim.distributed.processes import ALONE, Processes
from sswim.kernels.exact_kernel import cross_kernel, expected_cross_kernel, far_away, kernel_matrix
from sswim.kernels.features import Kernel
from sswim.members.model import Factors, kernel_points, log_precision
from sswim.rows.rows import Rows, row_keys
from sswim.search import Search, SharedSearch, make_search

MAP_INPUTS = 3
"""Largest number of inputs of what may be a map or a series with gaps."""

THINNING = 64
"""One row in this many is a candidate for the far neighbours."""


class NeighbourIndex:
    """Finds the neighbours of points among rows, of which each process may have a part."""

    def __init__(
        self,
        points: Float64[Tensor, "N D"],
        is_far: Bool[Tensor, " N"],
        offset: int = 0,
        processes: Processes = ALONE,
    ) -> None:
        """Index rows.

        Args:
            points: The rows of this process, in the warped space.
            is_far: Whether each row can be a far neighbour; see :func:`thinned`.
            offset: Number of its first row among all rows.
            processes: The processes that have the other rows. They must all look up the same
                points together.
        """
        self.points, self.offset, self.processes = points, offset, processes
        self._own_far = is_far.nonzero()[:, 0]
        self.n_rows = sum(processes.all_gather(len(points)))

    def neighbours(self, points: Float64[Tensor, "Q D"], k: int) -> Int64[Tensor, "Q m"]:
        """Return the k neighbours of points, the nearest first; near and far rows in turn.

        The place of a far row that is a near row as well has the number −1. There are fewer than k
        places if there are fewer rows.
        """
        if k >= self.n_rows:
            return self.search.nearest(points, self.n_rows).indices
        n_far = min(k // 2, len(self.far)) if points.shape[1] <= MAP_INPUTS else 0
        near = self.search.nearest(points, k - n_far).indices
        if n_far == 0:
            return near
        far = self.far[self.far_search.nearest(points, n_far).indices]
        again = (far[:, :, None] == near[:, None, :]).any(-1)
        far = torch.where(again, -1, far)
        pairs = torch.stack((near[:, :n_far], far), dim=-1).flatten(1)
        return torch.cat((pairs, near[:, n_far:]), dim=-1)

    @cached_property
    def search(self) -> Search:
        """The search among all rows."""
        return self._shared(self.points, self.offset)

    @cached_property
    def far(self) -> Int64[Tensor, " n"]:
        """The rows that can be far neighbours, by their numbers among all rows."""
        parts = self.processes.all_gather((self._own_far + self.offset).cpu())
        return torch.cat(parts).to(self.points.device)

    @cached_property
    def far_search(self) -> Search:
        """The search among the rows that can be far neighbours."""
        counts = self.processes.all_gather(len(self._own_far))
        return self._shared(self.points[self._own_far], sum(counts[: self.processes.rank]))

    def _shared(self, points: Float64[Tensor, "N D"], offset: int) -> Search:
        own = make_search(points)
        return own if self.processes.size == 1 else SharedSearch(own, offset, self.processes)


def thinned(inputs: Float[Tensor, "N D"], divisor: int = THINNING) -> Bool[Tensor, " N"]:
    """Choose about one row in ``divisor`` by a hash of its inputs in single precision.

    The choice does not depend on the order of the rows, on their precision or on the device.
    """
    return row_keys(inputs.to(torch.float32)).remainder(divisor) == 0


MIN_RIDGE = 1e-8
"""Smallest λ: rows that are almost equal would otherwise make K singular."""


@dataclass(frozen=True)
class NeighbourRows(Record):
    """Rows as predictions by neighbours use them."""

    points: Float64[Tensor, "*B N D"]
    """Warped inputs, in units of the length-scales."""
    variance: Float64[Tensor, "*B N D"] | None
    """Variances of uncertain inputs, passed on by the warps; None where inputs are exact."""
    targets: Float64[Tensor, "*#B N T"]
    """z = T(y), the warped targets."""
    log_slope: Float64[Tensor, "*#B N T"]
    """log T'(y)"""
    ridge: Float64[Tensor, "*B N T"]
    """λ, the noise variance over s²."""
    is_far: Bool[Tensor, " N"] | None = None
    """Whether each row can be a far neighbour; None while training."""

    def __len__(self) -> int:
        return len(self.points)

    def neighbours(self, points: Float64[Tensor, "Q D"], k: int) -> Int64[Tensor, "Q m"]:
        """Return the k neighbours of points, −1 for a missing one; see :class:`NeighbourIndex`."""
        return self.index.neighbours(points, k)

    @cached_property
    def index(self) -> NeighbourIndex:
        """The index in which neighbours are found."""
        assert self.is_far is not None
        return NeighbourIndex(self.points, self.is_far)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for copies and pickles, without the index."""
        return {name: value for name, value in self.__dict__.items() if name != "index"}


def neighbour_rows(
    factors: Factors, rows: Rows, noise_to_signal: Float64[Tensor, " T"]
) -> NeighbourRows:
    """Compute points, targets and ridges of rows, chunk by chunk.

    Args:
        factors: Tensors of the model.
        rows: Standardised rows.
        noise_to_signal: λ = σ²/s² of a row that counts once, under constant noise.
    """

    def observe(chunk: Rows) -> NeighbourRows:
        observed = observe_neighbours(factors, chunk, noise_to_signal)
        return replace(observed, is_far=thinned(chunk.inputs.mean))

    return map_chunks(observe, rows, rows_at_once(rows))


def observe_neighbours(
    factors: Factors, rows: Rows, noise_to_signal: Float64[Tensor, "*B T"]
) -> NeighbourRows:
    """Compute points, targets and ridges of one chunk of rows; differentiable.

    Members of a batch share the rows, or each has its own.
    """
    measure = kernel_points(factors, rows.inputs)
    targets, log_slope = factors.output.forward(rows.targets)
    ridge = noise_to_signal.clamp(min=MIN_RIDGE)[..., None, :]
    ridge = ridge.expand(*ridge.shape[:-2], *targets.shape[-2:])
    precision = log_precision(factors, rows.inputs)
    if precision is not None and factors.noise is not None:
        ridge = ridge * (-factors.noise.temper[..., None, :] * precision).exp()
    if rows.weight is not None:
        ridge = ridge / rows.weight[..., None]
    return NeighbourRows(measure.mean, measure.variance, targets, log_slope, ridge)


@dataclass(frozen=True)
class LocalNumbers(Record):
    """The six numbers of every row; see the module."""

    log_deviation: Float[Tensor, "*B"]
    """log l, where l² is the variance of z(x) given its neighbours, in units of s²."""
    residual: Float[Tensor, "*B"]
    """a, the deviation of z(x) from a zero-mean prediction, in units of l."""
    constant: Float[Tensor, "*B"]
    """o, the same for targets that are all one."""
    square: Float[Tensor, "*B"]
    """zᵀK_N⁻¹z"""
    product: Float[Tensor, "*B"]
    """zᵀK_N⁻¹1"""
    mass: Float[Tensor, "*B"]
    """1ᵀK_N⁻¹1"""


def local_numbers(
    covariance: Float[Tensor, "*B n n"],
    targets: Float[Tensor, "*B n"],
    ones: Float[Tensor, "*B n"],
) -> LocalNumbers:
    """Return the six numbers; differentiable in covariance and targets.

    Args:
        covariance: K of the m neighbours and, last, the row itself.
        targets: z of the same.
        ones: One for every row that is there, zero for the place of a missing neighbour.
    """
    return LocalNumbers(*_LocalNumbers.apply(covariance, targets, ones))


class _LocalNumbers(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, covariance: Tensor, targets: Tensor, ones: Tensor) -> tuple[Tensor, ...]:
        factor = cholesky(covariance, "covariance of a neighbourhood")
        sides = torch.stack((targets, ones), dim=-1)
        whitened = torch.linalg.solve_triangular(factor, sides, upper=False)
        of_neighbours, of_row = whitened[..., :-1, :], whitened[..., -1, :]
        deviation = factor[..., -1, -1]
        last_row = factor[..., -1, :-1]  # L⁻¹k
        vectors = torch.linalg.solve_triangular(
            factor[..., :-1, :-1].mT,
            torch.cat((last_row[..., None], of_neighbours), dim=-1),
            upper=True,
        )
        p = torch.cat((-vectors[..., 0], torch.ones_like(deviation)[..., None]), dim=-1)
        p = p / deviation[..., None]
        alpha_beta = torch.nn.functional.pad(vectors[..., 1:], (0, 0, 0, 1))
        products = of_neighbours.mT @ of_neighbours
        residual, constant = of_row.unbind(-1)
        ctx.save_for_backward(p, alpha_beta, residual, constant)
        return (
            deviation.log(),
            residual.clone(),
            constant.clone(),
            products[..., 0, 0].clone(),
            products[..., 0, 1].clone(),
            products[..., 1, 1].clone(),
        )

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any,
        of_deviation: Tensor,
        of_residual: Tensor,
        of_constant: Tensor,
        of_square: Tensor,
        of_product: Tensor,
        of_mass: Tensor,
    ) -> tuple[Tensor | None, Tensor | None, None]:
        p, alpha_beta, residual, constant = ctx.saved_tensors
        alpha, beta = alpha_beta.unbind(-1)
        of_covariance = of_targets = None
        if ctx.needs_input_grad[0]:
            # The rows of CVᵀ.
            of_p = 0.5 * (of_deviation - residual * of_residual - constant * of_constant)
            first = of_p[..., None] * p
            first = first - 0.5 * (of_residual[..., None] * alpha + of_constant[..., None] * beta)
            second = -0.5 * of_residual[..., None] * p - of_square[..., None] * alpha
            second = second - 0.5 * of_product[..., None] * beta
            third = -0.5 * of_constant[..., None] * p - 0.5 * of_product[..., None] * alpha
            third = third - of_mass[..., None] * beta
            left = torch.stack((p, alpha, beta), dim=-1)  # V
            of_covariance = left @ torch.stack((first, second, third), dim=-2)
        if ctx.needs_input_grad[1]:
            of_targets = (
                of_residual[..., None] * p
                + 2 * of_square[..., None] * alpha
                + of_product[..., None] * beta
            )
        return of_covariance, of_targets, None


@dataclass(frozen=True)
class Neighbourhoods(Record):
    """Rows, each after its m neighbours."""

    points: Float[Tensor, "B n D"]
    """Warped inputs in units of the length-scales, relative to the row's."""
    variance: Float[Tensor, "B n D"] | None
    """Variances of these; None where they are known exactly."""
    targets: Float64[Tensor, "B n T"]
    """z, the warped targets."""
    ridge: Float64[Tensor, "B n T"]
    """λ, the noise variance over s²."""
    present: Float64[Tensor, "B n"]
    """One for every row that is there, zero for the place of a missing neighbour."""

    def covariance(self, kernel: Kernel) -> Float[Tensor, "B T n n"]:
        """Return K of every target; a missing neighbour is independent of all others."""
        points = far_away(self.points, self.present)
        matrix = kernel_matrix(points, self.variance, kernel)
        return matrix[:, None] + self.ridge.mT.diag_embed()


def neighbour_log_density(
    rows: Neighbourhoods,
    kernel: Kernel,
    signal: Float64[Tensor, "*#B T"],
    degrees: Float64[Tensor, "*#B T"] | None,
    rounding: Float64[Tensor, "*#B T"],
) -> Float64[Tensor, "B T"]:
    """Return log p(z(x) | neighbours) of every row, differentiable; zero for one without any.

    Args:
        rows: The neighbourhoods.
        kernel: The kernel.
        signal: s².
        degrees: ν; None for the same amplitude everywhere.
        rounding: Variance of the rounding of targets. It bounds the density of rows whose
            neighbours all have equal targets.
    """
    present = rows.present[:, None, :].expand(-1, rows.targets.shape[-1], -1)
    targets = (rows.targets * rows.present[..., None]).mT
    numbers = local_numbers(rows.covariance(kernel), targets, present)
    count = rows.present[:, :-1].sum(-1, keepdim=True)
    mass = torch.where(count > 0, numbers.mass, 1.0)
    mean = numbers.product / mass  # b
    unit = (2 * numbers.log_deviation).exp()  # l²
    squared = (numbers.residual - mean * numbers.constant).square() * unit
    widened = unit * (1 + numbers.constant.square() / mass)
    if degrees is None:
        variance = signal * widened + rounding
        density = -0.5 * (squared / variance + (2 * math.pi * variance).log())
    else:
        q = (numbers.square - numbers.product * mean).clamp(min=0)
        total = degrees + count - 1
        variance = (degrees * signal + q) / total * widened + rounding
        density = student_t_log_density(squared / variance, total) - 0.5 * variance.log()
    return torch.where(count > 0, density, 0.0)


N_AMPLITUDE = 16
"""Largest number of near neighbours that the amplitude comes from; on a map, of near and far ones
each."""


@dataclass(frozen=True)
class LocalPrediction(Record):
    """Predictions of points from their neighbours."""

    mean: Float64[Tensor, "Q T"]
    """Mean of z."""
    unit_variance: Float64[Tensor, "Q T"]
    """Variance of the function, in units of the amplitude."""
    amplitude: Float64[Tensor, "Q T"]
    """ŝ², the amplitude of the neighbourhood."""
    degrees: Float64[Tensor, "Q T"]
    """Degrees of freedom."""
    weights: Float64[Tensor, "Q T m"] | None = None
    """w, the weights of the neighbours; zero for a missing one."""


def predict_locally(
    rows: NeighbourRows,
    indices: Int64[Tensor, "Q m"],
    points: Float64[Tensor, "Q D"],
    kernel: Kernel,
    signal: Float64[Tensor, " T"],
    degrees: Float64[Tensor, " T"] | None,
    ridge_ratio: Float64[Tensor, "Q m"] | None = None,
    point_variance: Float64[Tensor, "Q D"] | None = None,
    *,
    weights: bool = False,
) -> LocalPrediction:
    """Predict points from their neighbours; differentiable in the points.

    Args:
        rows: The rows.
        indices: Each point's neighbours among them; −1 for a missing one.
        points: Warped inputs in units of the length-scales.
        kernel: The kernel.
        signal: s².
        degrees: ν; None for the same amplitude everywhere.
        ridge_ratio: Factors of the neighbours' ridges; None for one.
        point_variance: Variances of the points; None for none.
        weights: Whether to return the weights of the neighbours.
    """
    present = (indices >= 0).to(torch.float64)
    indices = indices.clamp(min=0)
    around = rows.points[indices] - points[:, None]  # near the origin, where rounding is least
    around = far_away(around, present)
    variance = None if rows.variance is None else rows.variance[indices]
    origin = torch.zeros_like(points)[:, None]
    fixed = around.detach()  # the kernel of the neighbours does not depend on the point
    if variance is None:
        matrix = cross_kernel(fixed, fixed, kernel)
        towards = cross_kernel(around, origin, kernel)
    else:
        own = origin if point_variance is None else point_variance[:, None]
        matrix = kernel_matrix(fixed, variance, kernel)
        towards = expected_cross_kernel(around, variance, origin, own, kernel)
    towards = towards[..., 0]  # k
    ridge = rows.ridge[indices].mT  # (Q, T, m)
    if ridge_ratio is not None:
        ridge = ridge * ridge_ratio[:, None]
    n_targets = ridge.shape[1]
    matrix = matrix[:, None] if n_targets == 1 else matrix[:, None].repeat(1, n_targets, 1, 1)
    matrix.diagonal(dim1=-2, dim2=-1).copy_(1 + ridge)
    factor = cholesky(matrix, "covariance of a neighbourhood")
    targets = rows.targets[indices].mT * present[:, None]
    ones = present[:, None].expand_as(targets)
    sides = torch.stack((targets, ones, towards[:, None].expand_as(targets)), dim=-1)
    whitened = torch.linalg.solve_triangular(factor, sides, upper=False)  # (Q, T, m, 3)
    of_targets, of_ones, of_point = whitened.unbind(-1)
    mass = of_ones.square().sum(-1)
    mass = torch.where(mass > 0, mass, 1.0)  # a point without neighbours
    constant = (of_targets * of_ones).sum(-1) / mass  # b
    missing = 1 - (of_ones * of_point).sum(-1)  # 1 − 1ᵀK⁻¹k
    centred = of_targets - constant[..., None] * of_ones
    mean = constant + (centred * of_point).sum(-1)
    unit_variance = 1 - of_point.square().sum(-1) + missing.square() / mass
    kriging_weights = None
    if weights:
        side = of_point + (missing / mass)[..., None] * of_ones
        solved = torch.linalg.solve_triangular(factor.mT, side[..., None], upper=True)[..., 0]
        kriging_weights = solved * present[:, None]
    first = slice(N_AMPLITUDE * (2 if points.shape[1] <= MAP_INPUTS else 1))
    amplitude, total = _amplitude(
        of_targets[..., first], of_ones[..., first], present[:, first], signal, degrees
    )
    return LocalPrediction(mean, unit_variance.clamp(min=0), amplitude, total, kriging_weights)


def _amplitude(
    of_targets: Float64[Tensor, "Q T m"],
    of_ones: Float64[Tensor, "Q T m"],
    present: Float64[Tensor, "Q m"],
    signal: Float64[Tensor, " T"],
    degrees: Float64[Tensor, " T"] | None,
) -> tuple[Float64[Tensor, "Q T"], Float64[Tensor, "Q T"]]:
    """Return ŝ² and the degrees of freedom of neighbours; infinite ones for one amplitude."""
    if degrees is None:
        shape = of_targets[..., 0]
        return signal.expand_as(shape), torch.full_like(shape, torch.inf)
    product = (of_targets * of_ones).sum(-1)
    mass = of_ones.square().sum(-1).clamp(min=1e-30)  # zero without neighbours
    square = (of_targets.square().sum(-1) - product.square() / mass).clamp(min=0)  # q
    count = present.sum(-1, keepdim=True).clamp(min=1)
    total = degrees + count - 1
    return (degrees * signal + square) / total, total
