"""Normal scores of the inputs: a fixed monotone map of every column, learnt from rows alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sswim.base.record import Record
from sswim.rows.measure import Measure

N_KNOTS = 65
"""R, of every column."""

ROWS_PER_KNOT = 8
"""At least, of a column with many values."""

FEWEST_KNOTS = 9
"""However few the rows."""

_SAME = 1e-12
"""Values this close, in units of a column's range, are one: a slope between them means nothing."""

_CONSTANT = 1e-9
"""A range this small, beside the values or one, is rounding: the column is constant."""


@dataclass(frozen=True)
class NormalScores(Record):
    """A monotone piecewise-linear map of every column; outside it goes on as at its ends."""

    knots: Float[Tensor, "*B D R"]
    """Increasing values of the column."""
    scores: Float[Tensor, "*B D R"]
    """What they are mapped to."""

    def forward(self, measure: Measure) -> Measure:
        """Map raw inputs; what is not known of them is mapped by the slopes, to first order.

        Nothing here collects a gradient: the map is fixed, and so are the inputs.
        """
        mean, slopes = (each.to(measure.mean.dtype) for each in self._map(measure.mean))

        def scaled(variance: Tensor | None) -> Tensor | None:
            if variance is None:
                return None
            if variance.ndim == measure.mean.ndim:
                return variance * slopes.square()
            return variance * slopes[..., :, None] * slopes[..., None, :]

        return Measure(mean, scaled(measure.variance), scaled(measure.input_variance))

    def slopes(self, values: Float[Tensor, "*N D"]) -> Float64[Tensor, "*B N D"]:
        """Of the map, where values are."""
        return self._map(values)[1]

    def _map(
        self, values: Float[Tensor, "*N D"]
    ) -> tuple[Float64[Tensor, "*B N D"], Float64[Tensor, "*B N D"]]:
        """The scores and the slopes at values."""
        knots, scores = (each.detach().to(torch.float64) for each in (self.knots, self.scores))
        slopes = scores.diff() / knots.diff()
        columns = values.detach().to(torch.float64).mT
        batch = torch.broadcast_shapes(knots.shape[:-2], columns.shape[:-2])
        knots, scores, slopes, columns = (
            each.expand(*batch, -1, -1) for each in (knots, scores, slopes, columns)
        )
        # The inner knots alone: below and above them lie the outermost segments, without an end.
        segment = torch.searchsorted(knots[..., 1:-1].contiguous(), columns.contiguous())
        slope = slopes.gather(-1, segment)
        beyond = columns - knots.gather(-1, segment)
        return (scores.gather(-1, segment) + slope * beyond).mT, slope.mT


def learn_normal_scores(sample: Float[Tensor, "S D"]) -> NormalScores:
    """The map of every column to its normal scores, standardised over the sample.

    Of the distinct values of a column the r-th has the mid-distribution p = (rows below + half of
    those that share it)/rows, and the score Φ⁻¹(p). Of many values those at evenly spaced p are
    knots, the first and the last always. A column of two values is standardised by this, and a
    constant one is left as it is.
    """
    columns = [_column(column) for column in sample.detach().to(torch.float64).unbind(-1)]
    knots, scores = (torch.stack(each) for each in zip(*columns, strict=True))
    mapped = NormalScores(knots, scores).forward(Measure(sample.detach().to(torch.float64))).mean
    mean, spread = mapped.mean(0), mapped.std(0, correction=0)
    varies = (scores != knots).any(-1)
    mean, spread = torch.where(varies, mean, 0.0), torch.where(varies, spread, 1.0)
    return NormalScores(knots, (scores - mean[:, None]) / spread[:, None])


def _column(values: Float64[Tensor, " S"]) -> tuple[Float64[Tensor, " R"], Float64[Tensor, " R"]]:
    """Knots and normal scores of one column; the identity if it is constant."""
    values, counts = values.unique(return_counts=True)
    extent = values[-1] - values[0]
    step = torch.maximum(extent, values.abs().amax().clamp(min=1.0))  # rounding cannot undo it
    if extent <= _CONSTANT * step:
        knots = values[0] + step * torch.arange(N_KNOTS, device=values.device)
        return knots, knots
    apart = torch.ones_like(values, dtype=torch.bool)
    apart[1:] = values.diff() > _SAME * extent
    values, group = values[apart], apart.cumsum(0) - 1
    shared = torch.zeros_like(values).index_add_(0, group, counts.to(values.dtype))
    probability = (shared.cumsum(0) - 0.5 * shared) / shared.sum()
    # Between few neighbours slopes are those of chance.
    most = min(max(int(shared.sum()) // ROWS_PER_KNOT, FEWEST_KNOTS), N_KNOTS)
    if len(values) > most:
        first, last = probability[0].item(), probability[-1].item()
        wanted = torch.linspace(first, last, most, dtype=values.dtype, device=values.device)
        chosen = torch.searchsorted(probability, wanted).clamp(max=len(values) - 1)
        chosen[0], chosen[-1] = 0, len(values) - 1
        chosen = chosen.unique()
        values, probability = values[chosen], probability[chosen]
    scores = torch.special.ndtri(probability)
    # Further knots on the last segment's line change nothing.
    further = step * torch.arange(1, N_KNOTS - len(values) + 1, device=values.device)
    slope = (scores[-1] - scores[-2]) / (values[-1] - values[-2])
    knots = torch.cat((values, values[-1] + further))
    return knots, torch.cat((scores, scores[-1] + slope * further))


class InputNormalScores(nn.Module):
    """The normal scores of a model's inputs: no parameters; the identity until it is started."""

    knots: Tensor
    scores: Tensor

    def __init__(self, n_inputs: int, batch: tuple[int, ...] = ()) -> None:
        super().__init__()
        identity = torch.arange(N_KNOTS, dtype=torch.float64).repeat(*batch, n_inputs, 1)
        self.register_buffer("knots", identity)
        self.register_buffer("scores", identity.clone())

    @torch.no_grad()
    def start(self, sample: Float64[Tensor, "S D"]) -> None:
        """Learn the map from a sample of the inputs, of one member."""
        learnt = learn_normal_scores(sample)
        self.knots.copy_(learnt.knots)
        self.scores.copy_(learnt.scores)

    def condition(self) -> NormalScores:
        """The map that rows need."""
        return NormalScores(self.knots, self.scores)
