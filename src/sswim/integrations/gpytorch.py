"""A kernel for GPyTorch that learns to warp its inputs.

It needs the extra ``sswim[gpytorch]``. ``import sswim`` does not import this module.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, cast

import torch
from gpytorch.kernels import Kernel
from gpytorch.models.exact_prediction_strategies import LinearPredictionStrategy
from gpytorch.priors import NormalPrior
from jaxtyping import Float, Float64
from linear_operator.operators import (
    LinearOperator,
    LowRankRootLinearOperator,
    MatmulLinearOperator,
    RootLinearOperator,
)
from torch import Tensor, nn

from sswim.base.validation import RandomState, UserError, draw_generator, require_integer
from sswim.kernels.features import Kernel as KernelName
from sswim.kernels.features import draw_frequencies
from sswim.members.model import (
    LARGEST,
    Architecture,
    Factors,
    new_warp_layers,
    row_features,
    warped_measures,
)
from sswim.members.start import start_length_scales, start_warps
from sswim.rows.rows import Measure
from sswim.warps.output_warp import OutputMap
from sswim.warps.pseudo_gp import PseudoGP
from sswim.warps.warp import WarpLayer

__all__ = ["SSWIMKernel"]


class SSWIMKernel(Kernel):  # type: ignore[misc]
    """A nonstationary kernel of low rank: expected Fourier features of warped inputs.

        k(x, x') = E φ(w(x))ᵀ E φ(w(x'))

    A warp w(x) = g(x) ⊙ x + h(x) has a Gaussian measure, because g and h are GPs conditioned on
    learnable pseudo-points, and the features φ approximate a stationary kernel. All warps start
    as the identity. Their parameters are trained with all others of a GPyTorch model; the
    pseudo-targets have their GPs as prior, which GPyTorch's objectives add.

    Inputs are used as they are: standardise them, or scale them to the unit cube. As usual, put the
    kernel into a ``ScaleKernel``.

    Frequencies and pseudo-inputs are drawn when the kernel sees its first inputs, near which the
    pseudo-inputs lie. Members of a batch start alike.

    Args:
        num_dims: Number of inputs D. If it does not follow from ``ard_num_dims`` or ``active_dims``
            either, parameters are made when the first inputs are seen, which is too late for an
            optimiser that has been made before.
        depth: Number of warps, one after the other; 0 for the stationary kernel.
        n_features: Number of Fourier features, rounded up to an even number because they come in
            pairs of cosine and sine.
        n_pseudo: Number of pseudo-points of each warp.
        kernel: Stationary kernel of the features and of the warps: ``"rbf"``, ``"matern12"``,
            ``"matern32"`` or ``"matern52"``.
        random_state: Seed of frequencies and pseudo-inputs.
        **kwargs: Arguments of every GPyTorch kernel: ``ard_num_dims``, ``batch_shape``,
            ``active_dims``, ``lengthscale_prior`` and ``lengthscale_constraint``. The length-scales
            are those of the warped inputs.
    """

    has_lengthscale = True

    def __init__(
        self,
        num_dims: int | None = None,
        *,
        depth: int = 1,
        n_features: int = 512,
        n_pseudo: int = 64,
        kernel: KernelName = "matern32",
        random_state: RandomState = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_integer("n_features", n_features, 1, LARGEST)
        self.architecture = Architecture(
            depth=depth,
            n_frequencies=(n_features + 1) // 2,
            n_pseudo=n_pseudo,
            warps="joint",
            kernel=kernel,
            pseudo_prior="whitened",
        )
        self.random_state = random_state
        self.spectrum: WarpedSpectrum | None = None
        if depth > 0:
            self.register_prior(
                "warp_prior", NormalPrior(0.0, 1.0), _whitened_targets, _set_whitened_targets
            )
        if num_dims is None:
            num_dims = self.ard_num_dims
        if num_dims is None and self.active_dims is not None:
            num_dims = len(self.active_dims)
        if num_dims is not None:
            require_integer("num_dims", num_dims, 1, LARGEST)
            self.spectrum = self._new_spectrum(num_dims)

    @property
    def is_stationary(self) -> bool:
        """Whether the kernel depends on differences of inputs only: without warps."""
        return self.architecture.depth == 0

    def forward(
        self,
        x1: Float[Tensor, "*X N D"],
        x2: Float[Tensor, "*Y M D"],
        diag: bool = False,
        last_dim_is_batch: bool = False,
        **_: Any,
    ) -> Tensor | LinearOperator:
        """Return the covariance of inputs, as a product of their features; see ``Kernel``."""
        if last_dim_is_batch:
            raise UserError(
                "A warp needs all inputs at once. Got last_dim_is_batch=True. Add or multiply "
                "kernels with active_dims=[0], active_dims=[1], … instead."
            )
        factors = self._factors(x1)
        # Equal inputs that are differentiated apart from each other need features of their own.
        apart = x1 is not x2 and (x1.requires_grad or x2.requires_grad)
        same = not apart and torch.equal(x1, x2)
        features = self._features(factors, x1)
        others = features if same else self._features(factors, x2)
        if diag:
            return (features * others).sum(-1)
        if not same:
            return MatmulLinearOperator(features, others.mT)
        n_rows, n_features = features.shape[-2:]
        operator = LowRankRootLinearOperator if n_features < n_rows else RootLinearOperator
        return operator(features)

    def warp(self, x: Float[Tensor, "*X N D"]) -> Measure:
        """Return means and variances of the warped inputs; the kernel is stationary in these."""
        if self.active_dims is not None:
            x = x.index_select(-1, self.active_dims)
        factors, rows, restore = self._by_member(self._factors(x), x)
        return warped_measures(factors, Measure(rows))[-1].map(restore)

    def prediction_strategy(self, *args: Any) -> LinearPredictionStrategy:
        """Return GPyTorch's way to predict by features."""
        return LinearPredictionStrategy(*args)

    def expand_batch(self, *sizes: Any) -> SSWIMKernel:
        """Return a copy whose members are those of this kernel, broadcast to a batch shape."""
        batch = torch.Size(sizes if isinstance(sizes[0], int) else sizes[0])
        old = len(self.batch_shape)
        if batch == self.batch_shape:
            return self
        return self._map_members(lambda tensor: tensor.expand(*batch, *tensor.shape[old:]).clone())

    def __getitem__(self, index: Any) -> SSWIMKernel:
        if not self.batch_shape:
            return self
        index = index if isinstance(index, tuple) else (index,)
        return self._map_members(lambda tensor: tensor[index])

    def _map_members(self, function: Callable[[Tensor], Tensor]) -> SSWIMKernel:
        """Return a copy with a function applied to all tensors that have an axis of members."""
        new = deepcopy(self)
        new.batch_shape = function(torch.empty(self.batch_shape, device=self.device)).shape
        tensors: list[Tensor] = [new.raw_lengthscale]
        if new.spectrum is not None:
            tensors += [*new.spectrum.parameters(), *new.spectrum.buffers()]
        for tensor in tensors:
            tensor.data = function(tensor.data)
        return new

    def _new_spectrum(self, n_inputs: int) -> WarpedSpectrum:
        return WarpedSpectrum(self.architecture, n_inputs, tuple(self.batch_shape)).to(self.device)

    def _factors(self, x: Float[Tensor, "*X N D"]) -> Factors:
        """Return the tensors that features are computed from; x are perhaps the first inputs."""
        if self.spectrum is None:
            self.spectrum = self._new_spectrum(x.shape[-1])
            if self.architecture.depth > 0 and self.training and torch.is_grad_enabled():
                warnings.warn(
                    "The parameters of the warps have been made only now, with the first inputs: "
                    "an optimiser that was made before does not train them. Give "
                    f"SSWIMKernel(num_dims={x.shape[-1]}), or call the kernel in torch.no_grad() "
                    "before.",
                    stacklevel=2,
                )
        if not self.spectrum.started.all():
            sample = x.detach().flatten(0, -2)
            if not len(sample) or not sample.isfinite().all():
                raise UserError(
                    "The first inputs of a kernel must be at least one row of finite numbers, "
                    f"because pseudo-points are drawn near them. Got inputs of shape "
                    f"{tuple(x.shape)}" + (" with NaN or infinity." if len(sample) else ".")
                )
            self.spectrum.start(sample, draw_generator(self.random_state))
        return self.spectrum.factors(self.lengthscale)

    def _features(self, factors: Factors, x: Float[Tensor, "*X N D"]) -> Float[Tensor, "*Y N F"]:
        """Return the expected features of warped inputs, in the precision of the inputs."""
        factors, rows, restore = self._by_member(factors, x)
        return restore(row_features(factors, Measure(rows)))

    def _by_member(
        self, factors: Factors, x: Float[Tensor, "*X N D"]
    ) -> tuple[Factors, Float[Tensor, "*B R D"], Callable[[Tensor], Tensor]]:
        """Return factors and rows with the same axes of members, and a function that undoes this.

        Batch axes of the inputs that the kernel does not have come first. They become rows, so that
        tensors of the kernel are not copied for each of their entries. An axis of the kernel may
        have length one.
        """
        n_rows, n_inputs = x.shape[-2:]
        batch = torch.broadcast_shapes(x.shape[:-2], self.batch_shape)
        n_more = len(batch) - len(self.batch_shape)
        more, members = batch[:n_more], batch[n_more:]
        first, last = tuple(range(n_more)), tuple(range(len(members), len(batch)))
        rows = x.expand(*batch, n_rows, n_inputs).movedim(first, last)

        def restore(values: Tensor) -> Tensor:
            return values.reshape(*members, *more, n_rows, values.shape[-1]).movedim(last, first)

        if members != self.batch_shape:
            n_axes = len(self.batch_shape)
            factors = factors.map(lambda tensor: tensor.expand(*members, *tensor.shape[n_axes:]))
        return factors, rows.flatten(len(members), -2), restore


def _whitened_targets(kernel: SSWIMKernel) -> Float64[Tensor, "*B G K Q"]:
    """Return ε, the whitened pseudo-targets of all GPs; a priori they are standard normal."""
    assert kernel.spectrum is not None
    return torch.stack([gp.pseudo_targets for gp in kernel.spectrum.gps()], dim=-3)


@torch.no_grad()
def _set_whitened_targets(kernel: SSWIMKernel, values: Float[Tensor, "*B G K Q"]) -> None:
    """Set ε, the whitened pseudo-targets of all GPs."""
    assert kernel.spectrum is not None
    for gp, value in zip(kernel.spectrum.gps(), values.unbind(-3), strict=True):
        gp.pseudo_targets.copy_(value)


class WarpedSpectrum(nn.Module):
    """A stack of warps, and frequencies at unit length-scale on top of it, in float64.

    The kernel may be in another precision: ``to``, ``float`` and ``double`` move this module to
    another device, but leave it in float64, as factors of pseudo-data need it.
    """

    unit_frequencies: Tensor
    started: Tensor

    def __init__(self, architecture: Architecture, n_inputs: int, batch: tuple[int, ...]) -> None:
        super().__init__()
        self.architecture = architecture
        self.layers = new_warp_layers(architecture, n_inputs, batch)
        shape = (*batch, architecture.n_frequencies, n_inputs)
        self.register_buffer("unit_frequencies", torch.zeros(shape, dtype=torch.float64))
        # Stored with the rest, so that loaded parameters are not drawn again.
        self.register_buffer("started", torch.zeros(batch, dtype=torch.bool))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        def keep_dtype(tensor: Tensor) -> Tensor:
            changed = fn(tensor)
            return changed if changed.dtype == tensor.dtype else tensor.to(changed.device)

        return super()._apply(keep_dtype, recurse)

    @torch.no_grad()
    def start(self, sample: Float[Tensor, "S D"], generator: torch.Generator) -> None:
        """Draw frequencies and pseudo-inputs, in place; all members of a batch start alike.

        Args:
            sample: Rows of inputs.
            generator: A generator on the CPU.
        """
        sample = sample.detach().to("cpu", torch.float64)
        kernel = self.architecture.kernel
        n_frequencies, n_inputs = self.unit_frequencies.shape[-2:]
        layers = new_warp_layers(self.architecture, n_inputs, ())
        scales = start_length_scales(sample, None)
        start_warps(map(_warp_layer, layers), kernel, sample, scales, generator)
        state = self.layers.state_dict()
        for name, tensor in layers.state_dict().items():
            state[name].copy_(tensor)
        self.unit_frequencies.copy_(draw_frequencies(kernel, n_frequencies, n_inputs, generator))
        self.started.fill_(True)

    def factors(self, length_scales: Float[Tensor, "*B 1 L"]) -> Factors:
        """Return the tensors that features are computed from.

        Args:
            length_scales: Length-scales of the warped inputs: one for all of them, or one for each.
        """
        warps = tuple(_warp_layer(layer).factors()[0] for layer in self.layers)
        return Factors(warps, self.unit_frequencies / length_scales, OutputMap(), noise=None)

    def gps(self) -> Iterator[PseudoGP]:
        """Yield the GPs of all warps, from the inputs up."""
        for layer in self.layers:
            yield from _warp_layer(layer).gps()


def _warp_layer(module: nn.Module) -> WarpLayer:
    return cast(WarpLayer, module)
