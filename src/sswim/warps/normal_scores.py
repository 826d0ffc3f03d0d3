"""Normal scores of the inputs: a monotone map of every column, fixed before training.

It maps the empirical distribution of a column to a standard normal one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sswim.base.record import Record
from sswim.rows.rows import Measure

N_KNOTS = 65
"""R, the number of knots of every column."""

ROWS_PER_KNOT = 8
"""Smallest number of rows per knot, for a column with many values."""

MIN_KNOTS = 9
"""Number of knots that a column with many values has even if there are few rows."""

_SAME = 1e-12
"""Values closer than this fraction of a column's range count as one value: the slope between them
would be meaningless."""

_CONSTANT = 1e-9
"""A column counts as constant if its range is below this fraction of its largest absolute value, or
below this number if all values are below one: such a range is rounding."""


@dataclass(frozen=True)
class NormalScores(Record):
    """A monotone piecewise-linear map of every column, linear beyond its outermost knots."""

    knots: Float[Tensor, "*B D R"]
    """Increasing values of the column."""
    scores: Float[Tensor, "*B D R"]
    """Normal scores that the knots are mapped to."""

    def forward(self, measure: Measure) -> Measure:
        """Map raw inputs; their variances are multiplied by squared slopes, to first order.

        It is differentiable in the inputs, and not in the map, which is not learnt.
        """
        mean, slopes = (tensor.to(measure.mean.dtype) for tensor in self._map(measure.mean))

        def scaled(variance: Tensor | None) -> Tensor | None:
            if variance is None:
                return None
            if variance.ndim == measure.mean.ndim:
                return variance * slopes.square()
            return variance * slopes[..., :, None] * slopes[..., None, :]

        return Measure(mean, scaled(measure.variance), scaled(measure.input_variance))

    def _map(
        self, values: Float[Tensor, "*N D"]
    ) -> tuple[Float64[Tensor, "*B N D"], Float64[Tensor, "*B N D"]]:
        """Return the normal scores of values, and the slopes of the map there."""
        knots, scores = (tensor.detach().to(torch.float64) for tensor in (self.knots, self.scores))
        slopes = scores.diff() / knots.diff()
        columns = values.to(torch.float64).mT
        batch = torch.broadcast_shapes(knots.shape[:-2], columns.shape[:-2])
        knots, scores, slopes, columns = (
            tensor.expand(*batch, -1, -1) for tensor in (knots, scores, slopes, columns)
        )
        # Inner knots only: the first and the last segment have no outer end.
        inner, found = knots[..., 1:-1].contiguous(), columns.detach().contiguous()
        segment = torch.searchsorted(inner, found)
        slope = slopes.gather(-1, segment)
        distance = columns - knots.gather(-1, segment)
        return (scores.gather(-1, segment) + slope * distance).mT, slope.mT


def learn_normal_scores(sample: Float[Tensor, "S D"]) -> NormalScores:
    """Learn the map of every column to its normal scores, standardised over the sample.

    A value of a column has the probability p = (rows below it + half of the rows equal to it)/rows,
    and its normal score is the standard normal quantile of p. If a column has many distinct values,
    only those at evenly spaced p become knots, always with the first and the last. A column of two
    values is thereby standardised, and a constant column is left as it is.
    """
    columns = [_learn_column(column) for column in sample.detach().to(torch.float64).unbind(-1)]
    knots, scores = (torch.stack(tensors) for tensors in zip(*columns, strict=True))
    mapped = NormalScores(knots, scores).forward(Measure(sample.detach().to(torch.float64))).mean
    mean, spread = mapped.mean(0), mapped.std(0, correction=0)
    varies = (scores != knots).any(-1)
    mean, spread = torch.where(varies, mean, 0.0), torch.where(varies, spread, 1.0)
    return NormalScores(knots, (scores - mean[:, None]) / spread[:, None])


def _learn_column(
    values: Float64[Tensor, " S"],
) -> tuple[Float64[Tensor, " R"], Float64[Tensor, " R"]]:
    """Return the knots and normal scores of one column; the identity if it is constant."""
    values, counts = values.unique(return_counts=True)
    extent = values[-1] - values[0]
    step = torch.maximum(extent, values.abs().amax().clamp(min=1.0))  # never lost to rounding
    if extent <= _CONSTANT * step:
        knots = values[0] + step * torch.arange(N_KNOTS, device=values.device)
        return knots, knots
    distinct = torch.ones_like(values, dtype=torch.bool)
    distinct[1:] = values.diff() > _SAME * extent
    values, group = values[distinct], distinct.cumsum(0) - 1
    n_rows = torch.zeros_like(values).index_add_(0, group, counts.to(values.dtype))
    probability = (n_rows.cumsum(0) - 0.5 * n_rows) / n_rows.sum()
    # Slopes between knots with few rows would be random.
    max_knots = min(max(int(n_rows.sum()) // ROWS_PER_KNOT, MIN_KNOTS), N_KNOTS)
    if len(values) > max_knots:
        first, last = probability[0].item(), probability[-1].item()
        wanted = torch.linspace(first, last, max_knots, dtype=values.dtype, device=values.device)
        chosen = torch.searchsorted(probability, wanted).clamp(max=len(values) - 1)
        chosen[0], chosen[-1] = 0, len(values) - 1
        chosen = chosen.unique()
        values, probability = values[chosen], probability[chosen]
    scores = torch.special.ndtri(probability)
    # Every column needs N_KNOTS knots; more of them along the last segment change nothing.
    padding = step * torch.arange(1, N_KNOTS - len(values) + 1, device=values.device)
    slope = (scores[-1] - scores[-2]) / (values[-1] - values[-2])
    knots = torch.cat((values, values[-1] + padding))
    return knots, torch.cat((scores, scores[-1] + slope * padding))


class InputNormalScores(nn.Module):
    """The map of a model's inputs to normal scores, without parameters.

    It is the identity until :meth:`start` learns it.
    """

    knots: Tensor
    scores: Tensor

    def __init__(self, n_inputs: int, batch: tuple[int, ...] = ()) -> None:
        super().__init__()
        identity = torch.arange(N_KNOTS, dtype=torch.float64).repeat(*batch, n_inputs, 1)
        self.register_buffer("knots", identity)
        self.register_buffer("scores", identity.clone())

    @torch.no_grad()
    def start(self, sample: Float64[Tensor, "S D"]) -> None:
        """Learn the map of a single member from a sample of the inputs."""
        learnt = learn_normal_scores(sample)
        self.knots.copy_(learnt.knots)
        self.scores.copy_(learnt.scores)

    def factors(self) -> NormalScores:
        """Return the map."""
        return NormalScores(self.knots, self.scores)
