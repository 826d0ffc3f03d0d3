"""A surrogate: members conditioned on rows, their weights, and the maps of inputs and targets."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import Record
from sswim.surrogate.exact_gp import ExactGP, Observed
from sswim.surrogate.paths import Paths, draw_paths
from sswim.surrogate.target_map import TargetMap


@dataclass(frozen=True)
class InputRange(Record):
    """The range of every input, which members see as −½ to ½."""

    low: Float64[Tensor, " D"]
    width: Float64[Tensor, " D"]

    @staticmethod
    def of(inputs: Float64[Tensor, "N D"]) -> InputRange:
        """Return the unit cube if all inputs lie in it, else the range of the inputs."""
        low, high = inputs.amin(0), inputs.amax(0)
        if bool((low >= 0).all() and (high <= 1).all()):
            return InputRange(torch.zeros_like(low), torch.ones_like(low))
        width = high - low
        return InputRange(low, torch.where(width > 0, width, 1.0))

    def scale(self, inputs: Float64[Tensor, "*S D"]) -> Float64[Tensor, "*S D"]:
        """Return inputs as members see them."""
        return (inputs - self.low) / self.width - 0.5


@dataclass(frozen=True)
class Surrogate:
    """A mixture of exact GPs on warped inputs, in the units of the rows."""

    gp: ExactGP
    weights: Float64[Tensor, " B"]
    """Weights of the members, which add up to one."""
    target_map: TargetMap
    input_range: InputRange

    @property
    def batch_shape(self) -> torch.Size:
        """Axes of rows added by :meth:`update`, if these differ from entry to entry of a batch."""
        return self.gp.batch_shape

    def joint(
        self,
        inputs: Float64[Tensor, "*S q D"],
        include_noise: bool = False,
        variance: Float64[Tensor, "*V #q"] | None = None,
    ) -> tuple[Float64[Tensor, "*T q"], Float64[Tensor, "*T q q"]]:
        """Return the mixture's mean and covariance of z at a set of points.

            mean μ = Σ_k w_k μ_k,    covariance Σ_k w_k (C_k + (μ_k − μ)(μ_k − μ)ᵀ)

        Args:
            inputs: Points. There may be a batch of sets.
            include_noise: Whether to add the noise of observations.
            variance: Known variance of the noise, in units of the targets; added if given.
        """
        means, covariances = self.gp.joint(self.input_range.scale(inputs)[..., None, :, :])
        weights = self.weights[:, None]
        mean = (weights * means).sum(-2)
        deviations = means - mean[..., None, :]
        between = (weights * deviations).mT @ deviations
        covariance = (weights[..., None] * covariances).sum(-3) + between
        noise = torch.zeros_like(mean)
        if include_noise:
            noise = noise + (self.weights * self.gp.factors.noise).sum()
        if variance is not None:
            slope = self.target_map.forward(self.target_map.inverse(mean))[1]
            noise = noise + slope.square() * variance
        return mean, covariance + noise.diag_embed()

    def update(
        self,
        inputs: Float64[Tensor, "*S n D"],
        targets: Float64[Tensor, "*Y n"],
        variance: Float64[Tensor, "*V #n"] | None = None,
    ) -> Surrogate:
        """Condition all members on further rows as well: exactly, as they are.

        Args:
            inputs: Inputs; another set of rows for every entry of a batch, if it has more axes.
            targets: Targets; several for the same inputs, if they have more axes.
            variance: Known variance of the noise of each target; None for the members' own.
        """
        mapped, slope = self.target_map.forward(targets)
        known = None if variance is None else variance * slope.square()
        rows = Observed(self.input_range.scale(inputs), mapped, known)
        return replace(self, gp=self.gp.update(rows))

    def draw_paths(self, n: int, generator: torch.Generator) -> Paths:
        """Draw n functions from the posterior; each is one of its members' by their weights."""
        if self.batch_shape:
            raise NotImplementedError(
                "Functions are drawn from one posterior. Got a batch of them, of shape "
                f"{tuple(self.batch_shape)}."
            )
        return draw_paths(
            self.gp, self.weights, self.target_map, self.input_range.scale, n, generator
        )
