"""The ensemble: members trained on the same rows, combined as a mixture, in units of the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import Record, map_chunks, rows_at_once
from sswim.model.output_warp import OutputMap
from sswim.posterior.density import Density
from sswim.posterior.mixture import Mixture
from sswim.posterior.prediction import MeanPrediction, Prediction
from sswim.posterior.predictor import Predictor
from sswim.rows.measure import Measure
from sswim.rows.rows import Rows
from sswim.rows.scaling import Scaling


@dataclass(frozen=True)
class Ensemble(Record):
    """Members that predict standardised rows, with weights and the scaling of the data.

    Inputs and targets are in the units of the data; there may be any number of rows, which are cut
    into chunks.
    """

    scaling: Scaling
    """Means and spreads that standardise the data."""
    members: tuple[Predictor, ...]
    """Members, conditioned on standardised rows."""
    weights: Float64[Tensor, " members"]
    """Weights of the members in the mixture; they add up to one."""

    def predict(self, inputs: Measure) -> Mixture:
        """Predict the targets at inputs, which may be uncertain."""
        return self._mixture([self._predict_member(member, inputs) for member in self.members])

    def predict_mean(self, inputs: Measure) -> Float64[Tensor, "N T"]:
        """Predict the means alone: cheaper, except with output warps, which need the variances."""
        if any(type(member.factors.output) is not OutputMap for member in self.members):
            return self.predict(inputs).mean
        predicted = map_chunks(self._predict_mean_chunk, inputs, rows_at_once(inputs))
        return self.scaling.original_targets(predicted.mean)

    def _predict_mean_chunk(self, inputs: Measure) -> MeanPrediction:
        """Predict the standardised means of one chunk of inputs."""
        standardised = self.scaling.inputs(inputs)
        means = torch.stack([member.predict_mean_chunk(standardised) for member in self.members])
        return MeanPrediction(torch.einsum("m,mnt->nt", self.weights, means))

    def _predict_member(self, member: Predictor, inputs: Measure) -> Prediction:
        """Predict by one member; inputs are standardised by chunks, without a copy of them all."""
        return map_chunks(
            lambda chunk: member.predict_chunk(self.scaling.inputs(chunk)),
            inputs,
            rows_at_once(inputs),
        )

    def leave_one_out(self, rows: Rows) -> Mixture:
        """Predict each row that the members are conditioned on from all other rows."""
        standardised = self.scaling.rows(rows)
        return self._mixture([member.leave_one_out(standardised) for member in self.members])

    def update(self, rows: Rows) -> Ensemble:
        """Condition the members on more rows: exactly, with the same parameters."""
        standardised = self.scaling.rows(rows)
        return replace(self, members=tuple(m.update(standardised) for m in self.members))

    def covariance(self, inputs: Measure, *, include_noise: bool) -> Float64[Tensor, "T N N"]:
        """Return the joint covariance of the function at inputs, or of observations.

        It has a part within the members and a part between their means.
        """
        standardised = self.scaling.inputs(inputs)
        mixture = self.predict(inputs)
        densities = (mixture if include_noise else mixture.without_noise()).members
        means = torch.stack([density.mean for density in densities])
        average = torch.einsum("m,mnt->nt", self.weights, means)
        centred = (means - average).permute(2, 1, 0)  # (T, N, members)
        total = (centred * self.weights) @ centred.mT  # between the means
        for member, density, weight in zip(self.members, densities, self.weights, strict=True):
            within = member.covariance(standardised)
            noise = density.warped.observation_variance - density.warped.latent_variance
            within = within + noise.mT.diag_embed()
            total = total + weight * density.covariance(within)
        return total

    def sample(
        self, n: int, generator: torch.Generator, *, include_noise: bool = False
    ) -> Callable[[Measure], Float64[Tensor, "n N T"]]:
        """Draw n functions, each from a member that is drawn by its weight; or observations.

        Returns:
            A function of inputs that returns the values of all n draws there.
        """
        weights = self.weights.cpu()
        chosen = torch.multinomial(weights, n, replacement=True, generator=generator)
        counts = chosen.bincount(minlength=len(self.members)).tolist()
        draws = [
            member.sample(count, generator, include_noise=include_noise)
            for member, count in zip(self.members, counts, strict=True)
        ]
        order = chosen.argsort(stable=True).argsort()  # from sorted by member to the order drawn

        def functions(inputs: Measure) -> Float64[Tensor, "n N T"]:
            standardised = self.scaling.inputs(inputs)
            values = [
                member.factors.output.inverse(draw(standardised))
                for member, draw in zip(self.members, draws, strict=True)
            ]
            return self.scaling.original_targets(torch.cat(values)[order])

        return functions

    def warp(self, inputs: Measure, member: int) -> list[Measure]:
        """Return the measure of the inputs, and the measures after each warp of a member.

        They are in the units of the inputs, or in those of the normal scores if the member uses
        them.
        """
        measures = self.members[member].warp(self.scaling.inputs(inputs))
        if self.members[member].factors.normal_scores is not None:
            return measures
        return [self.scaling.original_warps(measure) for measure in measures]

    def log_evidence(self) -> Float64[Tensor, ""]:
        """Return log p(y) of all rows under the mixture of the members."""
        evidences = [member.log_evidence() for member in self.members]
        mixture = (torch.stack(evidences) + self.weights.log()).logsumexp(0)
        # log p(y) = log p(z) − Σ log spread for the standardised targets z.
        return mixture - self.members[0].count * self.scaling.target_spread.log().sum()

    def _mixture(self, predictions: list[Prediction]) -> Mixture:
        """Combine the members' predictions of standardised rows."""
        densities = (
            Density(prediction, member.factors.output, self.scaling)
            for prediction, member in zip(predictions, self.members, strict=True)
        )
        return Mixture(tuple(densities), self.weights)
