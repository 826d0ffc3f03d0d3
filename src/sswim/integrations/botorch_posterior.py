"""The posterior of an SSWIMModel and functions drawn from it, as BoTorch wants them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.sampling.pathwise.paths import SamplePath
from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
from jaxtyping import Float, Float64
from linear_operator import to_linear_operator
from torch import Tensor

from sswim.base.cholesky import cholesky
from sswim.surrogate import TargetMap

NUGGET = 1e-8
"""Part of every variance that is added to it before samples are drawn. Without it samples at nearly
equal points have wild gradients."""

ROUNDING = 1e-12
"""Variance that is added as well. Variances of z are differences of numbers of about one, which
have lost the digits below it. It is small, because samples at points where the function is known
must hardly differ: an acquisition function would look for the best of them for ever."""


@dataclass(frozen=True)
class OutputMoments:
    """Joint moments of one output's z at a set of points, and its map of targets."""

    mean: Float64[Tensor, "*T q"]
    covariance: Float64[Tensor, "*T q q"]
    target_map: TargetMap


class SSWIMPosterior(GPyTorchPosterior):  # type: ignore[misc]
    """Joint posterior of one or several independent outputs.

    Its ``distribution`` is Gaussian with the moments of the outputs, for acquisition functions that
    want these. Samples are draws of the Gaussian z, mapped to the targets: skewed and bounded where
    the targets are.
    """

    def __init__(self, outputs: Sequence[OutputMoments], dtype: torch.dtype) -> None:
        # The base class would compute the moments at once, which samples do not need.
        self._outputs = tuple(outputs)
        self._is_mt = len(outputs) > 1
        self._dtype, self._device = dtype, outputs[0].mean.device

    def rescale(self, offset: Float[Tensor, " m"], scale: Float[Tensor, " m"]) -> SSWIMPosterior:
        """Return the posterior of other units, offset + scale·y."""
        outputs = [
            replace(output, target_map=output.target_map.rescale(*units))
            for output, *units in zip(self._outputs, offset.double(), scale.double(), strict=True)
        ]
        return SSWIMPosterior(outputs, self._dtype)

    @cached_property
    def distribution(self) -> MultivariateNormal:
        """The Gaussian with the moments of the outputs."""
        distributions = []
        for output in self._outputs:
            mean, covariance = output.target_map.moments(output.mean, output.covariance)
            # A linear operator, because a tensor would be factorised at once.
            operator = to_linear_operator(covariance.to(self._dtype))
            distributions.append(MultivariateNormal(mean.to(self._dtype), operator))
        if self._is_mt:
            return MultitaskMultivariateNormal.from_independent_mvns(distributions)
        return distributions[0]

    @property
    def mean(self) -> Float[Tensor, "*T q m"]:
        """The mean of every output."""
        return self._marginals[0]

    @property
    def variance(self) -> Float[Tensor, "*T q m"]:
        """The variance of every output."""
        return self._marginals[1]

    @cached_property
    def _marginals(self) -> tuple[Tensor, Tensor]:
        """Means and variances, which a set of single points gives for less."""
        moments = [
            output.target_map.moments(
                output.mean[..., None],
                output.covariance.diagonal(dim1=-2, dim2=-1)[..., None, None],
            )
            for output in self._outputs
        ]
        mean = torch.stack([mean[..., 0] for mean, _ in moments], dim=-1)
        variance = torch.stack([variance[..., 0, 0] for _, variance in moments], dim=-1)
        return mean.to(self._dtype), variance.to(self._dtype)

    @property
    def batch_shape(self) -> torch.Size:
        """Axes of sets of points."""
        return self._outputs[0].mean.shape[:-1]

    @property
    def base_sample_shape(self) -> torch.Size:
        """The shape of a base sample: one normal number for each value."""
        shape = self._outputs[0].mean.shape
        return torch.Size((*shape, len(self._outputs))) if self._is_mt else shape

    def _extended_shape(
        self,
        sample_shape: torch.Size = torch.Size(),  # noqa: B008 (as in BoTorch)
    ) -> torch.Size:
        return sample_shape + torch.Size((*self._outputs[0].mean.shape, len(self._outputs)))

    def rsample(self, sample_shape: torch.Size | None = None) -> Float[Tensor, "*sample q m"]:
        """Draw samples, differentiable."""
        sample_shape = torch.Size([1]) if sample_shape is None else sample_shape
        shape = sample_shape + self.base_sample_shape
        base_samples = torch.randn(shape, dtype=self._dtype, device=self._device)
        return self.rsample_from_base_samples(sample_shape, base_samples)

    def rsample_from_base_samples(
        self, sample_shape: torch.Size, base_samples: Float[Tensor, "*base"]
    ) -> Float[Tensor, "*sample q m"]:
        """Turn normal numbers into samples, differentiable."""
        if base_samples.shape[: len(sample_shape)] != sample_shape:
            raise RuntimeError(
                "sample_shape must be the first axes of base_samples. "
                f"Got {tuple(sample_shape)} and base_samples of {tuple(base_samples.shape)}."
            )
        if not self._is_mt:
            base_samples = base_samples[..., None]
        samples = []
        for output, root, normal in zip(
            self._outputs, self._roots, base_samples.double().unbind(-1), strict=True
        ):
            values = output.mean + (root @ normal[..., None])[..., 0]
            samples.append(output.target_map.inverse(values))
        return torch.stack(samples, dim=-1).to(self._dtype)

    @cached_property
    def _roots(self) -> list[Float64[Tensor, "*T q q"]]:
        """Roots of the covariances."""
        roots = []
        for output in self._outputs:
            variance = output.covariance.diagonal(dim1=-2, dim2=-1)
            nugget = NUGGET * variance.detach().clamp(min=0) + ROUNDING
            matrix = output.covariance + nugget.diag_embed()
            roots.append(cholesky(matrix, name="posterior covariance", scale=1.0))
        return roots


class SSWIMPath(SamplePath):  # type: ignore[misc]
    """Functions drawn from the posterior of a model.

    Args:
        functions: The functions, as :meth:`SSWIMModel.draw_paths` returns them.
        sample_shape: The axes that the functions are laid out in.
        n_outputs: Number of outputs.
    """

    def __init__(
        self, functions: Callable[[Tensor], Tensor], sample_shape: torch.Size, n_outputs: int
    ) -> None:
        super().__init__()
        self.functions, self.sample_shape, self.n_outputs = functions, sample_shape, n_outputs

    def forward(self, x: Float[Tensor, "*S q d"], **_: Any) -> Float[Tensor, "*F q"]:
        """Return values of the functions; those of several outputs along the last batch axis.

        Args:
            x: Points. The axes of the functions are the last of the batch, or missing.
        """
        n_axes = len(self.sample_shape)
        if self.n_outputs > 1 and x.ndim > 2:
            x = x.squeeze(-3)  # the axis of outputs
        shape = torch.broadcast_shapes(x.shape[:-2], self.sample_shape)
        x = x.expand(*shape, *x.shape[-2:])
        rest = shape[: len(shape) - n_axes]
        values = self.functions(x.reshape(*rest, self.sample_shape.numel(), *x.shape[-2:]))
        values = values.reshape(*shape, *values.shape[-2:])
        return values[..., 0] if self.n_outputs == 1 else values.mT

    def set_ensemble_as_batch(self, ensemble_as_batch: bool) -> None:
        """Do nothing: every function already is one of a member."""
