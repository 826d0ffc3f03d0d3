"""The objective of training by neighbours: the density of rows given their neighbours.

Every row is predicted without itself, so this is a leave-one-out criterion, and an unbiased
estimate of it from a few rows costs the same however many there are.
"""

from __future__ import annotations

from operator import itemgetter

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.distributed.processes import ALONE, Processes
from sswim.model.sswim import SSWIM, Factors
from sswim.posterior.neighbour_rows import observe_neighbours
from sswim.posterior.neighbourhood import Neighbourhoods, neighbour_log_density
from sswim.rows.rows import Rows
from sswim.training.neighbour_pool import Pool


def neighbour_objective(
    model: SSWIM,
    rows: Rows,
    step: Pool,
    prior_weight: float = 1.0,
    processes: Processes = ALONE,
) -> Float64[Tensor, ""]:
    """Return −E log p(y(x) | neighbours) − (log prior)/N in nats per row, differentiable.

    With several processes it is this process's part of the sum.

    Args:
        model: A single model.
        rows: All rows.
        step: Some of them, and their neighbours.
        prior_weight: Weight of the prior of the warps.
        processes: The processes that each take some rows of the step.
    """
    factors, prior = model.condition()
    n_rows = step.present.any(-1).sum().clamp(min=1)
    mean_weight = 1.0 if rows.weight is None else rows.weight.mean()
    total_weight = len(rows) * mean_weight
    value = (prior_weight * prior.warps + prior.density) / total_weight
    if not processes.is_first:
        value = value * 0
    mine = step.map(itemgetter(slice(*processes.share.span(len(step.own)))))
    if len(mine.own) == 0:
        return value
    losses = _losses(model, factors, rows, mine)
    return value + losses.sum() / (n_rows * mean_weight)


def _losses(model: SSWIM, factors: Factors, rows: Rows, step: Pool) -> Float64[Tensor, " B"]:
    """Return −c·log p(y(x) | neighbours) of rows; zero for a row without neighbours."""
    together = torch.cat((step.neighbours, step.own[:, None]), dim=1)
    used, place = together.unique(return_inverse=True)  # rows share neighbours
    taken = rows.take(used)
    seen = observe_neighbours(factors, taken, model.noise() / model.signal())
    ridge = seen.ridge[place]
    if taken.weight is not None:  # the row itself is one observation
        own = ridge[:, -1:] * taken.weight[place[:, -1]][:, None, None]
        ridge = torch.cat((ridge[:, :-1], own), dim=1)
    points = seen.points[place]
    neighbourhoods = Neighbourhoods(
        points - points[:, -1:],
        None if seen.variance is None else seen.variance[place],
        seen.targets[place],
        ridge,
        torch.nn.functional.pad(step.present.to(torch.float64), (0, 1), value=1.0),
    )
    log_slope = seen.log_slope[place[:, -1]]
    density = neighbour_log_density(
        neighbourhoods,
        model.architecture.kernel,
        model.signal(),
        model.degrees(),
        (model.resolution * log_slope.detach().exp()).square() / 12,
    )
    losses = -torch.where(step.present.any(-1), (density + log_slope).sum(-1), 0.0)
    return losses if taken.weight is None else losses * taken.weight[place[:, -1]]
