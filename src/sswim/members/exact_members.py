"""Members with the exact kernel, conditioned on all rows: the limit of features for few rows.

With the rows' kernel K + Λ = LLᵀ and β = L⁻¹(z − b), a set of points has

    A = L⁻¹k(X, x),    mean b + Aᵀβ,    covariance k(x, x) − AᵀA.

Further rows (x', z'), perhaps another set of them for every entry of a batch, leave L as it is:

    A' = L⁻¹k(X, x'),    SSᵀ = k(x', x') + Λ' − A'ᵀA',    E = S⁻¹(k(x', x) − A'ᵀA),
    γ = S⁻¹(z' − b − A'ᵀβ),    mean b + Aᵀβ + Eᵀγ,    covariance k(x, x) − AᵀA − EᵀE.

Functions are drawn by pathwise conditioning: a prior function g of a member, by many random
features, and noise ε of every row make the posterior function

    f(x) = b + g(x) + k(x, X)(K + Λ)⁻¹(z − b − g(X) − ε).

The members of all kinds are one batch, from their training (``exact_training``) to their draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import itemgetter

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from sswim.base.cholesky import cholesky
from sswim.base.record import Record
from sswim.kernels.additive_kernel import draw_additive_frequencies
from sswim.kernels.features import draw_frequencies, expected_features
from sswim.members.exact_model import (
    RIPPLE_KERNEL,
    ExactFactors,
    ExactModels,
    exact_points,
    kernel_between,
    kernel_within,
)
from sswim.rows.rows import Measure

N_FREQUENCIES = 1024
"""Number of frequencies of a prior function, for each part of its kernel."""

_MATRIX = "kernel matrix of the rows"


@dataclass(frozen=True)
class ExactRows(Record):
    """Rows, as members see them."""

    inputs: Float64[Tensor, "*S n D"]
    """x, between −½ and ½ or somewhat outside."""
    targets: Float64[Tensor, "*Y n"]
    """z, the mapped targets; there may be several of them for the same inputs."""
    variance: Float64[Tensor, "*V n"] | None
    """Known variance of the noise of each row, in units of z; None where it is the members' σ²."""

    def noise(self, factors: ExactFactors) -> Float64[Tensor, "*V B n"]:
        """Return the noise of every row for every member, the diagonal of Λ."""
        own = factors.noise[:, None]
        if self.variance is None:
            return own.expand(-1, self.inputs.shape[-2])
        return own + self.variance[..., None, :]

    def take(self, which: Tensor) -> ExactRows:
        """Return some of the rows, where targets and inputs are of the same rows."""
        return self.map(itemgetter(which))

    def append(self, others: ExactRows) -> ExactRows:
        """Return these rows followed by others, broadcast to the batch axes of both."""
        inputs = _concatenate(self.inputs, others.inputs, -2)
        targets = _concatenate(self.targets, others.targets, -1)
        if self.variance is None and others.variance is None:
            return ExactRows(inputs, targets, None)
        first, second = (
            torch.zeros_like(rows.targets) if rows.variance is None else rows.variance
            for rows in (self, others)
        )
        return ExactRows(inputs, targets, _concatenate(first, second, -1))


def _concatenate(first: Tensor, second: Tensor, axis: int) -> Tensor:
    """Concatenate two tensors along an axis, after broadcasting the axes before it."""
    n_last = -axis
    batch = torch.broadcast_shapes(first.shape[:-n_last], second.shape[:-n_last])
    parts = [part.expand(*batch, *part.shape[-n_last:]) for part in (first, second)]
    return torch.cat(parts, dim=axis)


@torch.no_grad()
def left_out_densities(
    models: ExactModels, rows: ExactRows, folds: Bool[Tensor, "F N"]
) -> Float64[Tensor, "K N"]:
    """Return the log density of every row by every kind's member that has left it out."""
    factors, _ = models.factors()
    n_members, n_folds = len(models.kinds), len(folds)
    densities = rows.targets.new_zeros(n_members // n_folds, len(rows.targets))
    for fold, left_out in enumerate(folds):
        some = torch.arange(fold, n_members, n_folds, device=rows.inputs.device)
        seen, unseen = rows.take(~left_out), rows.take(left_out)
        members = ExactMembers.condition(factors.select(some), seen)
        mean, covariance = members.predict_jointly(unseen.inputs[None])
        variance = covariance.diagonal(dim1=-2, dim2=-1).clamp(min=0)
        variance = variance + unseen.noise(members.factors)
        squared = (unseen.targets - mean).square() / variance
        densities[:, left_out] = -0.5 * (squared + variance.log())
    return densities.nan_to_num(nan=-1e6)


@dataclass(frozen=True)
class _Further:
    """Further rows that members are conditioned on, in the notation of the module."""

    rows: ExactRows
    points: Float64[Tensor, "*S B n D"]
    towards: Float64[Tensor, "*S B N n"]
    """A'."""
    factor: Float64[Tensor, "*V B n n"]
    """S."""
    whitened: Float64[Tensor, "*Y B n"]
    """γ."""


@dataclass(frozen=True)
class ExactMembers:
    """A batch of members, which are exact GPs, conditioned on rows."""

    factors: ExactFactors
    rows: ExactRows
    points: Float64[Tensor, "B N D"]
    """The warped inputs of the rows."""
    factor: Float64[Tensor, "B N N"]
    """L."""
    whitened: Float64[Tensor, "B N"]
    """β."""
    further: _Further | None = None

    @staticmethod
    def condition(factors: ExactFactors, rows: ExactRows) -> ExactMembers:
        """Condition members on rows."""
        points = exact_points(factors, rows.inputs[None])
        kernel = kernel_within(factors, points)
        factor = cholesky(kernel + rows.noise(factors).diag_embed(), name=_MATRIX)
        residual = rows.targets - factors.mean[:, None]
        whitened = torch.linalg.solve_triangular(factor, residual[..., None], upper=False)
        return ExactMembers(factors, rows, points, factor, whitened[..., 0])

    @property
    def batch_shape(self) -> torch.Size:
        """Axes of further rows, if these differ from entry to entry of a batch."""
        if self.further is None:
            return torch.Size()
        return self.further.whitened.shape[:-2]

    def predict_jointly(
        self, inputs: Float64[Tensor, "*S #B q D"]
    ) -> tuple[Float64[Tensor, "*T B q"], Float64[Tensor, "*T B q q"]]:
        """Return mean and covariance of the function at a set of points, for every member.

        Args:
            inputs: Points, for all members or for each. There may be a batch of sets, whose axes
                are broadcast with those of further rows.
        """
        points = exact_points(self.factors, inputs)
        towards = self._towards(points)  # A
        mean = self.factors.mean[:, None] + (towards.mT @ self.whitened[..., None])[..., 0]
        covariance = kernel_within(self.factors, points) - towards.mT @ towards
        if self.further is None:
            return mean, covariance
        own = kernel_between(self.factors, self.further.points, points)
        rest = own - self.further.towards.mT @ towards
        shape = torch.broadcast_shapes(self.further.factor.shape[:-2], rest.shape[:-2])
        factor = self.further.factor.expand(*shape, -1, -1)
        explained = torch.linalg.solve_triangular(factor, rest, upper=False)  # E
        mean = mean + (explained.mT @ self.further.whitened[..., None])[..., 0]
        covariance = covariance - explained.mT @ explained
        return mean, covariance.expand(*mean.shape, mean.shape[-1])

    def update(self, rows: ExactRows) -> ExactMembers:
        """Return the members conditioned on further rows as well: exactly, as they are."""
        if self.further is not None:
            rows = self.further.rows.append(rows)
        elif rows.inputs.ndim == 2 and rows.targets.ndim == 1:
            return ExactMembers.condition(self.factors, self.rows.append(rows))
        points = exact_points(self.factors, rows.inputs[..., None, :, :])
        towards = self._towards(points)  # A'
        matrix = kernel_within(self.factors, points) + rows.noise(self.factors).diag_embed()
        factor = cholesky(matrix - towards.mT @ towards, name=_MATRIX)  # S
        predicted = (towards.mT @ self.whitened[..., None])[..., 0]
        residual = rows.targets[..., None, :] - self.factors.mean[:, None] - predicted
        shape = torch.broadcast_shapes(factor.shape[:-2], residual.shape[:-1])
        whitened = torch.linalg.solve_triangular(
            factor.expand(*shape, -1, -1), residual.expand(*shape, -1)[..., None], upper=False
        )
        return replace(self, further=_Further(rows, points, towards, factor, whitened[..., 0]))

    def sample(
        self, n: int, weights: Float64[Tensor, " B"], generator: torch.Generator
    ) -> Callable[[Float64[Tensor, "*S #n q D"]], Float64[Tensor, "*S n q"]]:
        """Draw n functions of members, before any further rows.

        Args:
            n: Number of functions.
            weights: Weights of the members. Numbers of functions follow them as closely as they
                can.
            generator: A generator on the CPU.

        Returns:
            A function of points, for all n functions or for each, which returns their values. It
            can be called any number of times, and is differentiable.
        """
        device = self.points.device
        uniform = (torch.arange(n) + torch.rand(n, generator=generator)) / max(n, 1)
        bounds = weights.cpu().cumsum(0)
        members = torch.searchsorted(bounds[:-1].contiguous(), uniform.to(bounds)).to(device)
        chosen = self.select(members)
        factors = chosen.factors
        frequencies, features = _draw_prior(factors, generator)
        noise = torch.randn(n, self.points.shape[1], generator=generator, dtype=torch.float64)
        noise = noise.to(device) * chosen.rows.noise(factors).sqrt()
        prior = _prior_values(frequencies, features, chosen.points)
        residual = chosen.rows.targets - factors.mean[:, None] - prior - noise
        updates = torch.cholesky_solve(residual[..., None], chosen.factor)[..., 0]  # (K + Λ)⁻¹(…)
        # Functions of a member lie side by side; a random order makes the first few as good as all.
        order = torch.randperm(n, generator=generator).to(device)

        def functions(inputs: Tensor) -> Tensor:
            if inputs.shape[-3] > 1:
                inputs = inputs[..., order.argsort(), :, :]
            points = exact_points(factors, inputs)
            prior = _prior_values(frequencies, features, points)
            kernel = kernel_between(factors, points, chosen.points)
            values = prior + (kernel @ updates[..., None])[..., 0] + factors.mean[:, None]
            return values[..., order, :]

        return functions

    def select(self, indices: Int64[Tensor, " S"]) -> ExactMembers:
        """Return some members, in ascending order, before any further rows; they may repeat."""
        return replace(
            self,
            factors=self.factors.select(indices),
            points=self.points[indices],
            factor=self.factor[indices],
            whitened=self.whitened[indices],
            further=None,
        )

    def _towards(self, points: Float64[Tensor, "*S B q D"]) -> Float64[Tensor, "*S B N q"]:
        """Return L⁻¹k(X, x)."""
        # The axes of sets become columns, so that L is not copied for each of them.
        columns = points.movedim(-3, 0).flatten(1, -2)
        kernel = kernel_between(self.factors, self.points, columns)
        solved = torch.linalg.solve_triangular(self.factor, kernel, upper=False)
        sets = solved.unflatten(-1, (*points.shape[:-3], points.shape[-2]))
        return sets.movedim((0, 1), (-3, -2))


def _draw_prior(
    factors: ExactFactors, generator: torch.Generator
) -> tuple[Float64[Tensor, "B M D"], Float64[Tensor, "B F"]]:
    """Draw frequencies of every member's kernel, and weights of their features.

    The second half of them is for ripples, with weights of zero for members without.
    """
    device, n_inputs = factors.signal.device, factors.length_scales.shape[1]
    smooth = []
    for kind, interaction in zip(factors.kinds, factors.interaction.tolist(), strict=True):
        if kind.additive:
            drawn = draw_additive_frequencies(
                kind.kernel, interaction, N_FREQUENCIES, n_inputs, generator
            )
        else:
            drawn = draw_frequencies(kind.kernel, N_FREQUENCIES, n_inputs, generator)
        smooth.append(drawn)
    fine = [
        draw_frequencies(RIPPLE_KERNEL, N_FREQUENCIES, n_inputs, generator) for _ in factors.kinds
    ]
    ripples = torch.stack(fine).to(device) / factors.ripple_scale[:, None, None]
    frequencies = torch.cat((torch.stack(smooth).to(device), ripples), dim=1)
    variance = torch.stack((torch.ones_like(factors.signal), factors.ripple_signal), dim=-1)
    # Twice, because features of so many frequencies have half the norm that one part needs.
    variance = 2 * factors.signal[:, None] * variance
    deviation = variance.sqrt().repeat_interleave(N_FREQUENCIES, dim=-1).repeat(1, 2)
    normal = torch.randn(deviation.shape, generator=generator, dtype=torch.float64)
    return frequencies, deviation * normal.to(device)


def _prior_values(
    frequencies: Float64[Tensor, "B M D"],
    weights: Float64[Tensor, "B F"],
    points: Float64[Tensor, "*S B q D"],
) -> Float64[Tensor, "*S B q"]:
    """Return g(x) of every function at its points."""
    features = expected_features(frequencies, Measure(points.movedim(-3, 0).flatten(1, -2)))
    values = (features @ weights[..., None])[..., 0]
    return values.unflatten(1, (*points.shape[:-3], points.shape[-2])).movedim(0, -2)
