"""A trained model conditioned on rows, ready to predict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.linear import Posterior, Statistics, leave_one_out, posterior
from sswim.measure import Measure
from sswim.model import SSWIM, Factors, row_features, warped
from sswim.objective import total_statistics
from sswim.prediction import Prediction
from sswim.record import Record, chunks, concatenate
from sswim.rows import Rows

CHUNK_ROWS = 4096
"""Rows looked at together, so that memory does not grow with the number of rows."""


@dataclass(frozen=True)
class Predictor(Record):
    """All that predictions and further rows need; none of the rows it was made of."""

    factors: Factors
    signal: Float64[Tensor, " T"]
    """s²"""
    statistics: Statistics
    posterior: Posterior

    @torch.no_grad()
    def predict(self, inputs: Measure) -> Prediction:
        """Predict the targets of inputs, certain or not."""
        return concatenate(
            self.posterior.predict(row_features(self.factors, chunk))
            for chunk in chunks(inputs, CHUNK_ROWS)
        )

    @torch.no_grad()
    def leave_one_out(self, rows: Rows) -> Prediction:
        """Predict each of the rows this was conditioned on from all the others."""
        return concatenate(
            leave_one_out(
                row_features(self.factors, chunk.inputs),
                chunk.targets,
                self.posterior,
                chunk.weight,
            )
            for chunk in chunks(rows, CHUNK_ROWS)
        )

    @torch.no_grad()
    def covariance(self, inputs: Measure) -> Float64[Tensor, "T N N"]:
        """Joint latent covariance of the inputs' function values, for every target."""
        return self.posterior.covariance(row_features(self.factors, inputs))

    @torch.no_grad()
    def sample(
        self, n: int, generator: torch.Generator
    ) -> Callable[[Measure], Float64[Tensor, "n N T"]]:
        """Draw n functions from the posterior, to be evaluated anywhere and any number of times."""
        weights = self.posterior.sample_weights(n, generator)

        @torch.no_grad()
        def functions(inputs: Measure) -> Float64[Tensor, "n N T"]:
            values = [
                row_features(self.factors, chunk).to(torch.float64) @ weights
                for chunk in chunks(inputs, CHUNK_ROWS)
            ]
            return torch.cat(values, dim=1)

        return functions

    @torch.no_grad()
    def warp(self, inputs: Measure) -> list[Measure]:
        """The measures after each warp in turn, beginning with the inputs themselves."""
        parts = [warped(self.factors, chunk) for chunk in chunks(inputs, CHUNK_ROWS)]
        return [concatenate(measures) for measures in zip(*parts, strict=True)]

    @torch.no_grad()
    def update(self, rows: Rows) -> Predictor:
        """Condition on more rows as well; exact, parameters kept, old rows not needed."""
        total = self.statistics + total_statistics(self.factors, chunks(rows, CHUNK_ROWS))
        return replace(
            self,
            statistics=total,
            posterior=posterior(total, self.posterior.noise, self.signal),
        )


@torch.no_grad()
def condition(model: SSWIM, rows: Rows) -> Predictor:
    """Condition a model on rows; the model may change afterwards without effect on the result."""
    factors, _ = model.condition()
    total = total_statistics(factors, chunks(rows, CHUNK_ROWS))
    signal, noise = model.signal(), model.noise()
    return Predictor(factors, signal, total, posterior(total, noise, signal))
