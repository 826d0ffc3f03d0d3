"""The local metric: how far apart the warps and the kernel put neighbouring inputs.

A member sees the input x at the warped point u(x), in units of the length-scales ℓ of its kernel. A
small step dx has there the squared length dxᵀG(x)dx, with

    G(x) = J(x)ᵀ diag(1/ℓ²) J(x),    J(x) = ∂u/∂x,

where u is the mean after the last warp. The function may vary by as much as its amplitude over a
step of length one. Without warps G is diag(1/ℓ²) everywhere: the function is stationary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import chunks, rows_at_once
from sswim.ensemble.ensemble import Ensemble
from sswim.members.model import Factors, warped_measures
from sswim.rows.rows import Measure
from sswim.rows.scaling import Scaling


@dataclass(frozen=True)
class LocalMetric:
    """The metric of the warps at rows, in the units of the inputs."""

    names: tuple[str, ...]
    """Names of the inputs."""
    inputs: Float64[np.ndarray, "N D"]
    """The rows."""
    metric: Float64[np.ndarray, "N D D"]
    """G, the mean of the members' metrics by their weights: symmetric, positive semi-definite."""

    @property
    def length_scale(self) -> Float64[np.ndarray, "N D"]:
        """1/√G_dd, the step along each input over which the function may change fully.

        It is infinite where the function does not depend on the input at all.
        """
        with np.errstate(divide="ignore"):
            return 1 / np.sqrt(np.diagonal(self.metric, axis1=-2, axis2=-1))


def local_metric(
    ensemble: Ensemble,
    length_scales: Sequence[Float64[Tensor, " Q"]],
    inputs: Float64[Tensor, "N D"],
) -> Float64[Tensor, "N D D"]:
    """Return the mean of the members' metrics by their weights, in the units of the inputs.

    A member without signal is constant, and its metric is zero.

    Args:
        ensemble: The members.
        length_scales: The length-scales of every member's kernel.
        inputs: Rows in the units of the data.
    """
    total = inputs.new_zeros(*inputs.shape, inputs.shape[1])
    triples = zip(ensemble.members, ensemble.weights.tolist(), length_scales, strict=True)
    for member, weight, scales in triples:
        if weight == 0 or member.is_constant:
            continue
        parts = []
        for chunk in chunks(Measure(inputs), rows_at_once(Measure(inputs))):
            slopes = _warp_jacobian(member.factors, ensemble.scaling, chunk.mean) / scales[:, None]
            parts.append(slopes.mT @ slopes)
        total += weight * torch.cat(parts)
    return total


def _warp_jacobian(
    factors: Factors, scaling: Scaling, inputs: Float64[Tensor, "N D"]
) -> Float64[Tensor, "N Q D"]:
    """Return J, the slopes ∂u_q/∂x_d of a member's warped inputs, for every row.

    Scaling, normal scores and the means of all warps contribute.

    Args:
        factors: Tensors of the member.
        scaling: Means and spreads that standardise the data.
        inputs: Rows in the units of the data.
    """
    with torch.enable_grad():
        points = inputs.detach().requires_grad_()
        warped = warped_measures(factors, scaling.inputs(Measure(points)))[-1].mean
        if not factors.warps:  # every coordinate depends on its own input alone
            [slopes] = torch.autograd.grad(warped.sum(), points)
            return slopes.diag_embed()
        rows = [
            torch.autograd.grad(column.sum(), points, retain_graph=True)[0]
            for column in warped.unbind(-1)
        ]
    return torch.stack(rows, dim=-2)
