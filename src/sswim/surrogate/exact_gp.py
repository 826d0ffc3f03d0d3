"""The exact GPs of all members, conditioned on rows: joint predictions, and more rows.

With the rows' kernel K + Λ = LLᵀ and β = L⁻¹(z − b), a set of points has

    A = L⁻¹k(X, x),    mean b + Aᵀβ,    covariance k(x, x) − AᵀA.

Further rows (x', z'), perhaps another set of them for every entry of a batch, leave L as it is:

    A' = L⁻¹k(X, x'),    SSᵀ = k(x', x') + Λ' − A'ᵀA',    E = S⁻¹(k(x', x) − A'ᵀA),
    γ = S⁻¹(z' − b − A'ᵀβ),    mean b + Aᵀβ + Eᵀγ,    covariance k(x, x) − AᵀA − EᵀE.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from sswim.base.cholesky import cholesky
from sswim.surrogate.kernels import kernel_between, kernel_within
from sswim.surrogate.members import MemberFactors, MemberKind, member_points

_MATRIX = "kernel matrix of the rows"


@dataclass(frozen=True)
class Observed:
    """Rows that members are conditioned on."""

    inputs: Float64[Tensor, "*S n D"]
    """x, between −½ and ½ or somewhat outside."""
    targets: Float64[Tensor, "*Y n"]
    """z, the mapped targets; there may be several of them for the same inputs."""
    variance: Float64[Tensor, "*V n"] | None
    """Known variance of the noise of each row, in units of z; None where it is the members' σ²."""

    def noise(self, factors: MemberFactors) -> Float64[Tensor, "*V B n"]:
        """Return the noise of every row for every member, the diagonal of Λ."""
        own = factors.noise[:, None]
        if self.variance is None:
            return own.expand(-1, self.inputs.shape[-2])
        return own + self.variance[..., None, :]

    def append(self, others: Observed) -> Observed:
        """Return these rows followed by others, broadcast to the batch axes of both."""
        inputs = _joined(self.inputs, others.inputs, -2)
        targets = _joined(self.targets, others.targets, -1)
        if self.variance is None and others.variance is None:
            return Observed(inputs, targets, None)
        known = [
            torch.zeros_like(rows.targets) if rows.variance is None else rows.variance
            for rows in (self, others)
        ]
        return Observed(inputs, targets, _joined(known[0], known[1], -1))


@dataclass(frozen=True)
class _Further:
    """Further rows that members are conditioned on, in the notation of the module."""

    rows: Observed
    points: Float64[Tensor, "*S B n D"]
    towards: Float64[Tensor, "*S B N n"]
    """A'."""
    factor: Float64[Tensor, "*V B n n"]
    """S."""
    whitened: Float64[Tensor, "*Y B n"]
    """γ."""


@dataclass(frozen=True)
class ExactGP:
    """The exact GPs of all members, conditioned on rows."""

    factors: MemberFactors
    kinds: tuple[MemberKind, ...]
    """The kind of every member."""
    rows: Observed
    points: Float64[Tensor, "B N D"]
    """The warped inputs of the rows."""
    factor: Float64[Tensor, "B N N"]
    """L."""
    whitened: Float64[Tensor, "B N"]
    """β."""
    further: _Further | None = None

    @property
    def batch_shape(self) -> torch.Size:
        """Axes of further rows, if these differ from entry to entry of a batch."""
        if self.further is None:
            return torch.Size()
        return self.further.whitened.shape[:-2]

    def joint(
        self, inputs: Float64[Tensor, "*S #B q D"]
    ) -> tuple[Float64[Tensor, "*T B q"], Float64[Tensor, "*T B q q"]]:
        """Return mean and covariance of the function at a set of points, for every member.

        Args:
            inputs: Points, for all members or for each. There may be a batch of sets, whose axes
                are broadcast with those of further rows.
        """
        points = member_points(self.factors, inputs)
        towards = self._towards(points)  # A
        mean = self.factors.mean[:, None] + (towards.mT @ self.whitened[..., None])[..., 0]
        covariance = self._kernel(points) - towards.mT @ towards
        if self.further is None:
            return mean, covariance
        own = kernel_between(self.kinds, self.factors, self.further.points, points)
        rest = own - self.further.towards.mT @ towards
        shape = torch.broadcast_shapes(self.further.factor.shape[:-2], rest.shape[:-2])
        factor = self.further.factor.expand(*shape, -1, -1)
        explained = torch.linalg.solve_triangular(factor, rest, upper=False)  # E
        mean = mean + (explained.mT @ self.further.whitened[..., None])[..., 0]
        covariance = covariance - explained.mT @ explained
        return mean, covariance.expand(*mean.shape, mean.shape[-1])

    def update(self, rows: Observed) -> ExactGP:
        """Return the members conditioned on further rows as well: exactly, as they are."""
        if self.further is not None:
            rows = self.further.rows.append(rows)
        elif rows.inputs.ndim == 2 and rows.targets.ndim == 1:
            return condition(self.factors, self.kinds, self.rows.append(rows))
        points = member_points(self.factors, rows.inputs[..., None, :, :])
        towards = self._towards(points)  # A'
        matrix = self._kernel(points) + rows.noise(self.factors).diag_embed()
        factor = cholesky(matrix - towards.mT @ towards, name=_MATRIX)  # S
        predicted = (towards.mT @ self.whitened[..., None])[..., 0]
        residual = rows.targets[..., None, :] - self.factors.mean[:, None] - predicted
        shape = torch.broadcast_shapes(factor.shape[:-2], residual.shape[:-1])
        whitened = torch.linalg.solve_triangular(
            factor.expand(*shape, -1, -1), residual.expand(*shape, -1)[..., None], upper=False
        )
        return replace(self, further=_Further(rows, points, towards, factor, whitened[..., 0]))

    def select(self, indices: Int64[Tensor, " S"]) -> ExactGP:
        """Return some members, in ascending order, before any further rows; they may repeat."""
        return replace(
            self,
            factors=self.factors.select(indices),
            kinds=tuple(self.kinds[index] for index in indices.tolist()),
            points=self.points[indices],
            factor=self.factor[indices],
            whitened=self.whitened[indices],
            further=None,
        )

    def _towards(self, points: Float64[Tensor, "*S B q D"]) -> Float64[Tensor, "*S B N q"]:
        """Return L⁻¹k(X, x)."""
        # The axes of sets become columns, so that L is not copied for each of them.
        sets, (n_members, n_points, n_inputs) = points.shape[:-3], points.shape[-3:]
        columns = points.movedim(-3, 0).reshape(n_members, sets.numel() * n_points, n_inputs)
        kernel = kernel_between(self.kinds, self.factors, self.points, columns)
        solved = torch.linalg.solve_triangular(self.factor, kernel, upper=False)
        n_rows = self.points.shape[1]
        return solved.reshape(n_members, n_rows, *sets, n_points).movedim((0, 1), (-3, -2))

    def _kernel(self, points: Float64[Tensor, "*S B q D"]) -> Float64[Tensor, "*S B q q"]:
        return kernel_within(self.kinds, self.factors, points)


def condition(factors: MemberFactors, kinds: tuple[MemberKind, ...], rows: Observed) -> ExactGP:
    """Condition members on rows."""
    points = member_points(factors, rows.inputs[None])
    kernel = kernel_within(kinds, factors, points)
    factor = cholesky(kernel + rows.noise(factors).diag_embed(), name=_MATRIX)
    residual = rows.targets - factors.mean[:, None]
    whitened = torch.linalg.solve_triangular(factor, residual[..., None], upper=False)
    return ExactGP(factors, kinds, rows, points, factor, whitened[..., 0])


def _joined(first: Tensor, second: Tensor, axis: int) -> Tensor:
    """Concatenate two tensors along an axis, after broadcasting the axes before it."""
    n_last = -axis
    batch = torch.broadcast_shapes(first.shape[:-n_last], second.shape[:-n_last])
    parts = [each.expand(*batch, *each.shape[-n_last:]) for each in (first, second)]
    return torch.cat(parts, dim=axis)
