"""Slopes of the posterior mean of the function with respect to its inputs."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import chunks, rows_at_once
from sswim.posterior.ensemble import Ensemble
from sswim.rows.measure import Measure


def mean_slopes(
    ensemble: Ensemble, inputs: Float64[Tensor, "N D"]
) -> Float64[Tensor, "members N T D"]:
    """Return ∂μ_m/∂x_d of every member m, row and target, in the units of the data.

    The slopes of the mixture's mean are their mean by the weights. Members without weight have
    zeros.
    """
    shape = (*inputs.shape[:1], len(ensemble.scaling.target_mean), inputs.shape[1])
    nothing = inputs.new_zeros(shape)
    return torch.stack(
        [
            nothing if weight == 0 else _slopes_of(_alone(ensemble, number), inputs)
            for number, weight in enumerate(ensemble.weights.tolist())
        ]
    )


def _alone(ensemble: Ensemble, number: int) -> Ensemble:
    """Return an ensemble of one member."""
    one = torch.ones_like(ensemble.weights[:1])
    return replace(ensemble, members=(ensemble.members[number],), weights=one)


def _slopes_of(ensemble: Ensemble, inputs: Float64[Tensor, "N D"]) -> Float64[Tensor, "N T D"]:
    """Return the slopes of the mean of an ensemble, chunk by chunk."""
    parts = []
    for chunk in chunks(Measure(inputs), rows_at_once(Measure(inputs))):
        with torch.enable_grad():
            points = chunk.mean.detach()[:, None].requires_grad_()  # sets of one point
            means = ensemble.posterior(points).mean[:, 0]
            columns = [
                torch.autograd.grad(mean.sum(), points, retain_graph=True)[0][:, 0]
                for mean in means.unbind(-1)
            ]
        parts.append(torch.stack(columns, dim=1))
    return torch.cat(parts)
