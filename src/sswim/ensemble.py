"""Members trained on the same rows, combined as a mixture, in the units of the data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.linear import negative_log_evidence
from sswim.measure import Measure
from sswim.mixture import Mixture
from sswim.prediction import Prediction
from sswim.predictor import CHUNK_ROWS, Predictor
from sswim.record import Record, chunks, concatenate
from sswim.rows import Rows
from sswim.scaling import Scaling


@dataclass(frozen=True)
class Ensemble(Record):
    """Predictors of standardised rows that differ in their draws; one is enough."""

    scaling: Scaling
    members: tuple[Predictor, ...]

    def predict(self, inputs: Measure) -> Mixture:
        """Predict the targets of inputs, certain or not."""
        return concatenate(self._predict(chunk) for chunk in chunks(inputs, CHUNK_ROWS))

    def _predict(self, inputs: Measure) -> Mixture:
        standardised = self.scaling.inputs(inputs)
        return self._mixture([member.predict(standardised) for member in self.members])

    def leave_one_out(self, rows: Rows) -> Mixture:
        """Predict each of the rows this was conditioned on from all the others."""
        standardised = self.scaling.rows(rows)
        return self._mixture([member.leave_one_out(standardised) for member in self.members])

    def update(self, rows: Rows) -> Ensemble:
        """Condition on more rows as well; exact, parameters kept, old rows not needed."""
        standardised = self.scaling.rows(rows)
        return replace(self, members=tuple(m.update(standardised) for m in self.members))

    def covariance(self, inputs: Measure) -> Float64[Tensor, "T N N"]:
        """Joint latent covariance: the members', and that of their means."""
        standardised = self.scaling.inputs(inputs)
        means = torch.stack([member.predict(standardised).mean for member in self.members])
        centred = (means - means.mean(0)).permute(2, 1, 0)  # (T, N, members)
        within = torch.stack([member.covariance(standardised) for member in self.members])
        between = centred @ centred.mT / len(self.members)
        return self.scaling.target_spread.square()[:, None, None] * (within.mean(0) + between)

    def sample(
        self, n: int, generator: torch.Generator
    ) -> Callable[[Measure], Float64[Tensor, "n N T"]]:
        """Draw n functions, each from a member chosen at random."""
        chosen = torch.randint(len(self.members), (n,), generator=generator)
        counts = chosen.bincount(minlength=len(self.members)).tolist()
        draws = [
            member.sample(count, generator)
            for member, count in zip(self.members, counts, strict=True)
        ]
        place = chosen.argsort(stable=True).argsort()  # from members in turn to the order drawn

        def functions(inputs: Measure) -> Float64[Tensor, "n N T"]:
            standardised = self.scaling.inputs(inputs)
            values = torch.cat([draw(standardised) for draw in draws])[place]
            return values * self.scaling.target_spread + self.scaling.target_mean

        return functions

    def warp(self, inputs: Measure, member: int) -> list[Measure]:
        """The inputs after each warp of a member in turn, beginning with themselves."""
        measures = self.members[member].warp(self.scaling.inputs(inputs))
        return [self.scaling.original_warps(measure) for measure in measures]

    def log_evidence(self) -> Float64[Tensor, ""]:
        """log p(y) of all rows, under an equal mixture of the members."""
        evidences = [
            -negative_log_evidence(member.statistics, member.posterior.noise, member.signal)
            for member in self.members
        ]
        mixture = torch.stack(evidences).logsumexp(0) - math.log(len(evidences))
        # log p(y) = log p(z) − Σ log spread for the standardised targets z.
        return mixture - self.members[0].statistics.count * self.scaling.target_spread.log().sum()

    def _mixture(self, predictions: list[Prediction]) -> Mixture:
        return Mixture(tuple(self.scaling.prediction(prediction) for prediction in predictions))
