"""Members trained on the same rows, combined as a mixture, in the units of the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import Record, map_chunks, rows_at_once
from sswim.model.output_warp import OutputMap
from sswim.posterior.density import Density
from sswim.posterior.linear_regression import negative_log_evidence
from sswim.posterior.mixture import Mixture
from sswim.posterior.prediction import Mean, Prediction
from sswim.posterior.predictor import Predictor
from sswim.rows.measure import Measure
from sswim.rows.rows import Rows
from sswim.rows.scaling import Scaling


@dataclass(frozen=True)
class Ensemble(Record):
    """Predictors of standardised rows that differ in their draws; one is enough."""

    scaling: Scaling
    members: tuple[Predictor, ...]
    weights: Float64[Tensor, " members"]
    """Of the mixture, adding up to one."""

    def predict(self, inputs: Measure) -> Mixture:
        """Predict the targets of inputs, certain or not."""
        return self._mixture([self._predict(member, inputs) for member in self.members])

    def predict_mean(self, inputs: Measure) -> Float64[Tensor, "N T"]:
        """The means alone: cheaper, unless a mean needs the variance as it does under a warp."""
        if any(type(member.factors.output) is not OutputMap for member in self.members):
            return self.predict(inputs).mean
        predicted = map_chunks(self._predict_mean, inputs, rows_at_once(inputs))
        return self.scaling.original_targets(predicted.mean)

    def _predict_mean(self, inputs: Measure) -> Mean:
        standardised = self.scaling.inputs(inputs)
        means = torch.stack([member.predict_mean(standardised).mean for member in self.members])
        return Mean(torch.einsum("m,mnt->nt", self.weights, means))

    def _predict(self, member: Predictor, inputs: Measure) -> Prediction:
        # In chunks, so that no second copy of all inputs is made.
        return map_chunks(
            lambda chunk: member.predict(self.scaling.inputs(chunk)), inputs, rows_at_once(inputs)
        )

    def leave_one_out(self, rows: Rows) -> Mixture:
        """Predict each of the rows this was conditioned on from all the others."""
        standardised = self.scaling.rows(rows)
        return self._mixture([member.leave_one_out(standardised) for member in self.members])

    def update(self, rows: Rows) -> Ensemble:
        """Condition on more rows as well; exact, parameters kept, old rows not needed."""
        standardised = self.scaling.rows(rows)
        return replace(self, members=tuple(m.update(standardised) for m in self.members))

    def covariance(self, inputs: Measure, *, noisy: bool) -> Float64[Tensor, "T N N"]:
        """Joint covariance of the function's values, or of observations.

        That of the members, and of their means.
        """
        standardised = self.scaling.inputs(inputs)
        mixture = self.predict(inputs)
        densities = (mixture if noisy else mixture.function()).members
        means = torch.stack([density.mean for density in densities])
        average = torch.einsum("m,mnt->nt", self.weights, means)
        centred = (means - average).permute(2, 1, 0)  # (T, N, members)
        total = (centred * self.weights) @ centred.mT  # between the members
        for member, density, weight in zip(self.members, densities, self.weights, strict=True):
            within = member.covariance(standardised)
            noise = density.gaussian.observation_variance - density.gaussian.latent_variance
            within = within + noise.mT.diag_embed()
            total = total + weight * density.covariance(within)
        return total

    def sample(
        self, n: int, generator: torch.Generator, *, noisy: bool = False
    ) -> Callable[[Measure], Float64[Tensor, "n N T"]]:
        """Draw n functions, each from a member chosen by its weight; or observations of them."""
        weights = self.weights.cpu()
        chosen = torch.multinomial(weights, n, replacement=True, generator=generator)
        counts = chosen.bincount(minlength=len(self.members)).tolist()
        draws = [
            member.sample(count, generator, noisy=noisy)
            for member, count in zip(self.members, counts, strict=True)
        ]
        place = chosen.argsort(stable=True).argsort()  # from members in turn to the order drawn

        def functions(inputs: Measure) -> Float64[Tensor, "n N T"]:
            standardised = self.scaling.inputs(inputs)
            values = [
                member.factors.output.inverse(draw(standardised))
                for member, draw in zip(self.members, draws, strict=True)
            ]
            return self.scaling.original_targets(torch.cat(values)[place])

        return functions

    def warp(self, inputs: Measure, member: int) -> list[Measure]:
        """The inputs after each warp of a member in turn, beginning with themselves.

        In the units of the inputs; of a member that sees their scores, in those of the scores.
        """
        measures = self.members[member].warp(self.scaling.inputs(inputs))
        if self.members[member].factors.normal_scores is not None:
            return measures
        return [self.scaling.original_warps(measure) for measure in measures]

    def log_evidence(self) -> Float64[Tensor, ""]:
        """log p(y) of all rows, under the mixture of the members."""
        evidences = [
            -negative_log_evidence(member.statistics, member.posterior.noise, member.signal)
            for member in self.members
        ]
        mixture = (torch.stack(evidences) + self.weights.log()).logsumexp(0)
        # log p(y) = log p(z) − Σ log spread for the standardised targets z.
        return mixture - self.members[0].statistics.count * self.scaling.target_spread.log().sum()

    def _mixture(self, predictions: list[Prediction]) -> Mixture:
        densities = (
            Density(prediction, member.factors.output, self.scaling)
            for prediction, member in zip(predictions, self.members, strict=True)
        )
        return Mixture(tuple(densities), self.weights)
